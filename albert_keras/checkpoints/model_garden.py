"""TF Model Garden's TF2 checkpoints of ALBERT, read: `albert_config.json` and an object graph.

Their keys are paths through Python objects, and change with what was saved: the word embeddings
are `encoder/layer_with_weights-0/embeddings` in an encoder, `masked_lm/embedding_table` in a
pretrainer and `variables/0` in a SavedModel; without a projection the numbers shift. But the object
graph in the file keeps each variable's own name as well, and those have hardly changed since 2020.
"""

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from albert_keras.checkpoints.filling import Fit, fill, unmatched
from albert_keras.checkpoints.head import build_head
from albert_keras.checkpoints.names import SAME, TENSORFLOW_WEIGHTS, Names, head_layouts
from albert_keras.checkpoints.tf1 import CONFIG, config_from_google
from albert_keras.checkpoints.tf_checkpoint import (
    OBJECT_GRAPH,
    TensorFlowCheckpoint,
    checkpoint_prefix,
    folder_of,
    open_checkpoint,
)
from albert_keras.config import AlbertConfig
from albert_keras.json_file import read_json
from albert_keras.model import build_albert

# As the variables were called until the middle of 2020.
OLD_NAMES = {
    "transformer/self_attention_output/": "transformer/self_attention/attention_output/",
}
# Theirs has no such tensors; these names are for `allow_missing`.
SOP = ("sop/kernel", "sop/bias")


def is_model_garden(source: str | Path) -> bool:
    """Whether `source`, a folder or a checkpoint's prefix, looks like one of Model Garden's.

    Google's folders have an `albert_config.json` too, but no object graph in the checkpoint.
    """
    try:
        return OBJECT_GRAPH in open_checkpoint(checkpoint_prefix(source)).shapes
    except ValueError:
        return False


def read_model_garden(
    source: str | Path,
    *,
    allow_missing: Sequence[str] = (),
    allow_unused: Sequence[str] = (),
) -> tuple[tf.keras.Model, Fit]:
    """The model in a Model Garden checkpoint: an encoder, or a pretrainer.

    A pretrainer of theirs has a head for masked tokens, but none for the order of sentences: their
    converter leaves that behind. A next-sentence head of theirs is never taken for one.

    Args:
        source: a folder with `albert_config.json` and one checkpoint, the checkpoint's prefix, or
            a SavedModel to which `albert_config.json` was added.
        allow_missing: patterns of variables that it may lack: "sop/*" for a pretrainer, whose head
            for the order of sentences is then drawn anew.
        allow_unused: patterns of variables to leave out: "cls/predictions/*" for the encoder
            alone, or the names of a task's head.

    Returns:
        The model, and which tensors were missing or unused.

    Raises:
        ValueError: no or several checkpoints, another architecture, a damaged file, or tensors
            that do not fit (all of them are listed).
    """
    prefix, config_path = checkpoint_prefix(source), folder_of(source) / CONFIG
    if not config_path.is_file():
        raise ValueError(
            f"A checkpoint of Model Garden's ALBERT needs {CONFIG}: how many layers share the "
            f"weights stands nowhere else, also in a SavedModel. Received: {config_path.parent} "
            "without it. Put the one that belongs to the model there."
        )
    config, groups = config_from_google(read_json(config_path), str(config_path))
    if len(set(groups.blocks())) != 1:
        raise ValueError(
            f"{config_path}: Model Garden's ALBERT shares all layers, num_hidden_groups and "
            f"inner_group_num are 1. Received: {groups.groups} and {groups.inner}."
        )
    found, get_tensor, state = _open(prefix)
    is_pretrainer = any(name.startswith("cls/") for name in unmatched(found, allow_unused))
    if is_pretrainer and unmatched(SOP, allow_missing):
        raise ValueError(
            "A pretrainer here has a head for the order of sentences, one of Model Garden has "
            f"none. Received: {prefix}, with a head for masked tokens. Allow sop/* to be missing, "
            "and that head is drawn anew; or leave out cls/predictions/*, and the encoder is read."
        )
    head = {"kind": "pretrainer" if is_pretrainer else "encoder"}
    model = build_head(build_albert(config), head)
    fit = fill(
        _names(config).tensors_of(model, ["transformer"] * config.num_hidden_layers),
        found,
        get_tensor,
        str(prefix),
        allow_missing=allow_missing,
        allow_unused=allow_unused,
    )
    return model, fit._replace(state=state)


def _open(prefix: Path) -> TensorFlowCheckpoint:
    """The checkpoint by the variables' own names."""
    shapes, get_tensor, state = open_checkpoint(prefix)
    if OBJECT_GRAPH not in shapes:
        raise ValueError(
            "A checkpoint of Model Garden's ALBERT has an object graph, as TF2 writes it. "
            f"Received: {prefix} without one, a TF1 checkpoint."
        )
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(get_tensor(OBJECT_GRAPH))
    keys: dict[str, str] = {}
    for node in graph.nodes:
        for attribute in node.attributes:
            key = attribute.checkpoint_key
            if key not in shapes:  # the training's state
                continue
            name = _modern(attribute.full_name)
            if name in keys:
                raise ValueError(
                    f"A checkpoint must hold one ALBERT. Received: {prefix}, where {name} is at "
                    f"{keys[name]} and at {key}."
                )
            keys[name] = key
    return TensorFlowCheckpoint(
        {name: shapes[key] for name, key in keys.items()},
        lambda name: get_tensor(keys[name]),
        state,
    )


def _modern(name):
    name = name.removeprefix("bert/")  # of the pretrainer's head
    for old, new in OLD_NAMES.items():
        name = name.replace(old, new)
    return name


def _names(config: AlbertConfig) -> Names:
    layouts = head_layouts(config.hidden_size, config.num_attention_heads)
    attention = "{layer}/self_attention"
    exceptions = {
        "attention_output/kernel": (f"{attention}/attention_output/kernel", layouts.output_kernel),
        "masked_lm/bias": ("cls/predictions/output_bias/bias", SAME),
        "sop/kernel": (SOP[0], SAME),
        "sop/bias": (SOP[1], SAME),
    }
    for module in ("query", "key", "value"):
        exceptions[f"{module}/kernel"] = f"{attention}/{module}/kernel", layouts.kernel
        exceptions[f"{module}/bias"] = f"{attention}/{module}/bias", layouts.bias
    return Names(
        modules={
            "word_embeddings": "word_embeddings",
            "position_embeddings": "position_embedding",
            "token_type_embeddings": "type_embeddings",
            "embeddings_norm": "embeddings/layer_norm",
            "projection": "embedding_projection",
            "attention_output": f"{attention}/attention_output",
            "attention_norm": "{layer}/self_attention_layer_norm",
            "intermediate": "{layer}/intermediate",
            "ffn_output": "{layer}/output",
            "ffn_norm": "{layer}/output_layer_norm",
            "pooler": "pooler_transform",
            "masked_lm_dense": "cls/predictions/transform/dense",
            "masked_lm_norm": "cls/predictions/transform/LayerNorm",
        },
        weights={**TENSORFLOW_WEIGHTS, "table": ("/embeddings", SAME)},
        exceptions=exceptions,
    )
