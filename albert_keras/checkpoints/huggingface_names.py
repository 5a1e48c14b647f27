"""Which tensor of a Hugging Face ALBERT file is which weight of ours."""

import numpy as np
import tensorflow as tf

from albert_keras.checkpoints.huggingface_config import LayerGroups
from albert_keras.checkpoints.identity_projection import identity_projection
from albert_keras.checkpoints.names import SOP_BIAS, SOP_KERNEL, TORCH_WEIGHTS, Names, Tensor
from albert_keras.layers.sop_head import PAIR_OBJECTIVES

# {prefix}: "albert." in the models with a head.
NAMES = Names(
    modules={
        "word_embeddings": "{prefix}embeddings.word_embeddings",
        "position_embeddings": "{prefix}embeddings.position_embeddings",
        "token_type_embeddings": "{prefix}embeddings.token_type_embeddings",
        "embeddings_norm": "{prefix}embeddings.LayerNorm",
        "projection": "{prefix}encoder.embedding_hidden_mapping_in",
        "query": "{layer}.attention.query",
        "key": "{layer}.attention.key",
        "value": "{layer}.attention.value",
        "attention_output": "{layer}.attention.dense",
        "attention_norm": "{layer}.attention.LayerNorm",
        "intermediate": "{layer}.ffn",
        "ffn_output": "{layer}.ffn_output",
        "ffn_norm": "{layer}.full_layer_layer_norm",
        "pooler": "{prefix}pooler",
        "masked_lm_dense": "predictions.dense",
        "masked_lm_norm": "predictions.LayerNorm",
        "masked_lm": "predictions",
        "classifier": "classifier",
        "span_predictor": "qa_outputs",
        "multiple_choice": "classifier",
        # They have no such head: these names are ours.
        "answer_start": "answerable_spans.start",
        "answer_end_dense": "answerable_spans.end_dense",
        "answer_end_norm": "answerable_spans.LayerNorm",
        "answer_end": "answerable_spans.end",
        "answerability_dense": "answerable_spans.answerability_dense",
        "answerability": "answerable_spans.answerability",
    },
    weights=TORCH_WEIGHTS,
    exceptions={
        f"{objective}/{weight}": (f"{objective}_classifier.classifier.{name}", layout)
        for objective in PAIR_OBJECTIVES  # theirs have the first alone
        for weight, name, layout in (("kernel", "weight", SOP_KERNEL), ("bias", "bias", SOP_BIAS))
    },
)


def tensors_of(model: tf.keras.Model, groups: LayerGroups, prefix: str) -> list[Tensor]:
    """Every tensor of the model's file.

    Args:
        model: an encoder, or one built around it.
        groups: the groups that the file is written in.
        prefix: of the encoder's names, "albert." beside a head.
    """
    layers = [
        f"{prefix}encoder.albert_layer_groups.{group}.albert_layers.{inner}"
        for group, inner in groups.blocks()
    ]
    return NAMES.tensors_of(model, layers, prefix=prefix)


def no_projection(size: int, prefix: str) -> dict[str, np.ndarray]:
    """The tensors of a projection that does nothing, E == H == `size`."""
    name = NAMES.modules["projection"].format(prefix=prefix)
    return identity_projection(f"{name}.weight", f"{name}.bias", size)


def duplicates_of(prefix: str) -> dict[str, str]:
    """Tensors that a file may repeat, because their model ties them, and what they must equal."""
    return {
        "predictions.decoder.weight": f"{prefix}embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    }
