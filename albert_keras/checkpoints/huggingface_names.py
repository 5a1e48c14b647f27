"""Which tensor of a Hugging Face ALBERT file is which variable of ours, and how it lies there."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_keras.checkpoints.huggingface_config import LayerGroups


class Layout(NamedTuple):
    """How an array of ours becomes one of theirs, and back."""

    to_file: Callable[[np.ndarray], np.ndarray]
    to_model: Callable[[np.ndarray], np.ndarray]


SAME = Layout(lambda x: x, lambda x: x)
# Their Linear keeps [out, in], our kernels are [in, out]. Heads need no reordering.
LINEAR = Layout(lambda x: x.T, lambda x: x.T)
# Label 1 is "swapped" in theirs and "in order" (SOP_IN_ORDER) in ours.
SOP_WEIGHT = Layout(lambda x: x.T[::-1], lambda x: x[::-1].T)
SOP_BIAS = Layout(lambda x: x[::-1], lambda x: x[::-1])


class Tensor(NamedTuple):
    """A tensor of the file and the variable whose values it holds."""

    name: str
    variable: tf.Variable
    layout: Layout

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape in the file."""
        return self.layout.to_file(np.broadcast_to(np.float32(0), tuple(self.variable.shape))).shape


def tensors_of(model: tf.keras.Model, groups: LayerGroups, prefix: str) -> list[Tensor]:
    """Every tensor of the model's file, each name once.

    Where their groups cannot say what shares, several names lead to one variable.

    Args:
        model: an encoder, a pretrainer or a classifier.
        groups: the groups that the file is written in.
        prefix: of the encoder's names, "albert." beside a head.
    """
    layers = {layer.name: layer for layer in model.layers}
    tensors = list(_encoder(layers, groups, prefix))
    if "masked_lm" in layers:
        head = layers["masked_lm"]
        tensors += _linear("predictions.dense", head.dense)
        tensors += _layer_norm("predictions.LayerNorm", head.layer_norm)
        tensors.append(Tensor("predictions.bias", head.output_bias, SAME))
    if "sop" in layers:
        dense = layers["sop"].dense
        tensors.append(Tensor("sop_classifier.classifier.weight", dense.kernel, SOP_WEIGHT))
        tensors.append(Tensor("sop_classifier.classifier.bias", dense.bias, SOP_BIAS))
    if "classifier" in layers:
        tensors += _linear("classifier", layers["classifier"])
    return list({tensor.name: tensor for tensor in tensors}.values())


def constants_of(model: tf.keras.Model, prefix: str) -> dict[str, np.ndarray]:
    """Tensors of the file for which we have no variable: their projection is there even when
    E == H, where ours is left out; the identity is the same model."""
    embeddings = model.get_layer("embeddings")
    if embeddings.embedding_hidden_mapping_in is not None:
        return {}
    name, size = f"{prefix}encoder.embedding_hidden_mapping_in", embeddings.hidden_size
    return {
        f"{name}.weight": np.eye(size, dtype=np.float32),
        f"{name}.bias": np.zeros(size, np.float32),
    }


def duplicates_of(prefix: str) -> dict[str, str]:
    """Tensors that a file may repeat, because their model ties them, and what they must equal."""
    return {
        "predictions.decoder.weight": f"{prefix}embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    }


def _encoder(layers, groups: LayerGroups, prefix: str) -> Iterator[Tensor]:
    embeddings, stack = layers["embeddings"], layers["encoder"]
    for table in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
        name = f"{prefix}embeddings.{table}.weight"
        yield Tensor(name, getattr(embeddings, table), SAME)
    yield from _layer_norm(f"{prefix}embeddings.LayerNorm", embeddings.layer_norm)
    if embeddings.embedding_hidden_mapping_in is not None:
        yield from _linear(
            f"{prefix}encoder.embedding_hidden_mapping_in", embeddings.embedding_hidden_mapping_in
        )
    patterns = zip(groups.blocks(), stack.attention_pattern, stack.ffn_pattern, strict=True)
    for (group, inner), attention_block, ffn_block in patterns:
        name = f"{prefix}encoder.albert_layer_groups.{group}.albert_layers.{inner}"
        attention, ffn = stack.attention_blocks[attention_block], stack.ffn_blocks[ffn_block]
        for projection in ("query", "key", "value", "dense"):
            yield from _linear(f"{name}.attention.{projection}", getattr(attention, projection))
        yield from _layer_norm(f"{name}.attention.LayerNorm", attention.layer_norm)
        yield from _linear(f"{name}.ffn", ffn.intermediate)
        yield from _linear(f"{name}.ffn_output", ffn.output_dense)
        yield from _layer_norm(f"{name}.full_layer_layer_norm", ffn.layer_norm)
    yield from _linear(f"{prefix}pooler", layers["pooler"].dense)


def _linear(name: str, layer: tf.keras.layers.Layer) -> Iterator[Tensor]:
    yield Tensor(f"{name}.weight", layer.kernel, LINEAR)
    yield Tensor(f"{name}.bias", layer.bias, SAME)


def _layer_norm(name: str, layer: tf.keras.layers.Layer) -> Iterator[Tensor]:
    yield Tensor(f"{name}.weight", layer.gamma, SAME)
    yield Tensor(f"{name}.bias", layer.beta, SAME)
