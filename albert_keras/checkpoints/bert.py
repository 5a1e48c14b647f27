"""BERT checkpoints, the paper's baseline, in ALBERT's layers: E = H, and nothing shared.

Google's TF1 folders and Hugging Face's. The encoder is read; BERT's next-sentence head is not one
for the order of sentences, and is never taken for one.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from safetensors import safe_open

from albert_keras.checkpoints.filling import Fit, fill
from albert_keras.checkpoints.names import TENSORFLOW_WEIGHTS, TORCH_WEIGHTS, Names
from albert_keras.checkpoints.tf_checkpoint import (
    OBJECT_GRAPH,
    checkpoint_prefix,
    folder_of,
    open_checkpoint,
)
from albert_keras.checkpoints.weights import shapes_in
from albert_keras.config import AlbertConfig
from albert_keras.json_file import check_object, read_json
from albert_keras.model import build_albert

CONFIG, TF1_CONFIG, WEIGHTS = "config.json", "bert_config.json", "model.safetensors"

SAME_FIELDS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
)
ACTIVATIONS = {"gelu": "gelu_erf", "gelu_new": "gelu_tanh", "relu": "relu"}
# Google's code computes the tanh form; the first weeks' had the exact one.
TF1_ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu"}

TF1 = Names(
    modules={
        "word_embeddings": "bert/embeddings/word_embeddings",
        "position_embeddings": "bert/embeddings/position_embeddings",
        "token_type_embeddings": "bert/embeddings/token_type_embeddings",
        "embeddings_norm": "bert/embeddings/LayerNorm",
        "query": "{layer}/attention/self/query",
        "key": "{layer}/attention/self/key",
        "value": "{layer}/attention/self/value",
        "attention_output": "{layer}/attention/output/dense",
        "attention_norm": "{layer}/attention/output/LayerNorm",
        "intermediate": "{layer}/intermediate/dense",
        "ffn_output": "{layer}/output/dense",
        "ffn_norm": "{layer}/output/LayerNorm",
        "pooler": "bert/pooler/dense",
    },
    weights=TENSORFLOW_WEIGHTS,
    exceptions={},
)
HUGGINGFACE = Names(
    modules={
        module: name.removeprefix("bert/").replace("/", ".") for module, name in TF1.modules.items()
    },
    weights=TORCH_WEIGHTS,
    exceptions={},
)
# LayerNorm in files from before 2019.
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def is_bert(source: str | Path) -> bool:
    """Whether `source`, a folder or a checkpoint's prefix, looks like a BERT of Google's or of
    Hugging Face's."""
    if (folder_of(source) / TF1_CONFIG).is_file():
        return True
    config = Path(source) / CONFIG
    return config.is_file() and read_json(config).get("model_type") == "bert"


def read_bert(
    source: str | Path, *, allow_missing: Sequence[str] = (), allow_unused: Sequence[str] = ()
) -> tuple[tf.keras.Model, Fit]:
    """The encoder of a BERT, an unshared `build_albert` with E = H.

    Args:
        source: a folder with `bert_config.json` and one TF1 checkpoint, that checkpoint's prefix,
            or a folder with `config.json` and `model.safetensors`.
        allow_missing: patterns of tensors that it may lack, as "pooler*": they are drawn anew.
        allow_unused: patterns of tensors to leave out: "cls*" for the heads of pretraining.

    Returns:
        The model, and which tensors were missing or unused.

    Raises:
        ValueError: another model, one of TF Model Garden's, a missing or damaged file, or tensors
            that do not fit.
    """
    folder = folder_of(source)
    allowed = {"allow_missing": allow_missing, "allow_unused": allow_unused}
    if (folder / TF1_CONFIG).is_file():
        prefix = checkpoint_prefix(source)
        found, get_tensor, state = open_checkpoint(prefix)
        if OBJECT_GRAPH in found:
            raise ValueError(
                "A BERT's TensorFlow checkpoint must be Google's, of TF1. Received: "
                f"{prefix}, one of TF2 with an object graph, as TF Model Garden's. Take the same "
                "model from Google's TF1 files or from Hugging Face."
            )
        config = _config(read_json(folder / TF1_CONFIG), folder / TF1_CONFIG, TF1_ACTIVATIONS)
        model = build_albert(config)
        layers = [f"bert/encoder/layer_{index}" for index in range(config.num_hidden_layers)]
        fit = fill(TF1.tensors_of(model, layers), found, get_tensor, str(prefix), **allowed)
        return model, fit._replace(state=state)
    config = _config(read_json(folder / CONFIG), folder / CONFIG, ACTIVATIONS)
    model, path = build_albert(config), folder / WEIGHTS
    shapes = shapes_in(path)
    names = {_modern(name): name for name in shapes}
    if len(names) < len(shapes):
        twice = sorted(set(shapes) - set(names.values()))
        raise ValueError(f"{path} must hold each tensor once. Received: {', '.join(twice)} again.")
    layers = [f"encoder.layer.{index}" for index in range(config.num_hidden_layers)]
    with safe_open(path, framework="np") as file:
        fit = fill(
            HUGGINGFACE.tensors_of(model, layers),
            {name: shapes[theirs] for name, theirs in names.items()},
            lambda name: file.get_tensor(names[name]),
            str(path),
            **allowed,
        )
    return model, fit


def _modern(name):
    name = name.removeprefix("bert.")
    for old, new in OLD_NAMES.items():
        name = name.replace(old, new)
    return name


def _config(fields: Mapping[str, Any], where: Path, activations: Mapping[str, str]) -> AlbertConfig:
    check_object(fields, str(where), [*SAME_FIELDS, "hidden_act"])
    if fields.get("position_embedding_type", "absolute") != "absolute":
        raise ValueError(
            f"{where}: `position_embedding_type` must be absolute. "
            f"Received: {fields['position_embedding_type']!r}."
        )
    if fields.get("is_decoder"):
        raise ValueError(f"{where}: `is_decoder` must be false. Received: true.")
    if fields["hidden_act"] not in [*activations]:
        raise ValueError(
            f"{where}: `hidden_act` must be one of {', '.join(activations)}. "
            f"Received: {fields['hidden_act']!r}."
        )
    try:
        return AlbertConfig(
            **{name: fields[name] for name in SAME_FIELDS},
            embedding_size=fields["hidden_size"],
            hidden_act=activations[fields["hidden_act"]],
            layer_norm_eps=fields.get("layer_norm_eps", 1e-12),
            sharing="none",
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
