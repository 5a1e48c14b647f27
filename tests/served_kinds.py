"""A small model of every kind that can be exported, whose answers differ from text to text."""

import numpy as np

from albert_keras.model import build_albert, build_pretrainer
from albert_keras.task_models import (
    build_answerable_span_predictor,
    build_classifier,
    build_multiple_choice,
    build_span_predictor,
)
from tests.small_tokenizer import VOCAB_SIZE

LABELS = ["harbour", "Küche", "dog"]
BUILDERS = {
    "classify": lambda encoder: build_classifier(encoder, len(LABELS)),
    "regress": lambda encoder: build_classifier(encoder, 1),
    "answer": build_span_predictor,
    "answer or none": build_answerable_span_predictor,
    "choose": build_multiple_choice,
    "embed": lambda encoder: encoder,
    "pretrainer": build_pretrainer,
}


def model_of(kind):
    """With random weights that are large enough to tell."""
    model = BUILDERS[kind](build_albert("tiny", vocab_size=VOCAB_SIZE))
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if "LayerNorm" not in getattr(weight, "path", weight.name):
            weight.assign(rng.normal(0, 0.4, tuple(weight.shape)).astype("float32"))
    return model
