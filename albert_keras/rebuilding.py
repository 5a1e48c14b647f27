"""A functional model once more, with other arguments for some of its layers, and filling it.

What `reshaping` and `growing` are made of.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_keras.backend import path_of
from albert_keras.config import SharingPattern
from albert_keras.layers import SharedTransformerStack
from albert_keras.model import layers_of


def rebuilt(model: tf.keras.Model, changes: Mapping[str, Mapping[str, Any]]) -> tf.keras.Model:
    """A new model of the same layers and weights, save for the layers in `changes`: there some
    arguments are replaced, and the weights are the caller's to fill."""

    def clone(layer):
        if isinstance(layer, tf.keras.Model):  # the encoder in a multiple-choice model
            return tf.keras.models.clone_model(layer, clone_function=clone)
        return type(layer).from_config({**layer.get_config(), **changes.get(layer.name, {})})

    new = tf.keras.models.clone_model(model, clone_function=clone)
    for name, layer in layers_of(model).items():
        if name not in changes:
            fill_layer(layers_of(new)[name], layer)
    return new


def fill_layer(
    new: tf.keras.layers.Layer, old: tf.keras.layers.Layer, **values: np.ndarray
) -> None:
    """Gives `new` the weights of `old`, and `values` to those that it names."""
    sources = weights_in(old)
    given = {path_of(getattr(new, name)): value for name, value in values.items()}
    for name, weight in weights_in(new).items():
        path = path_of(weight)
        weight.assign(given[path] if path in given else sources[name])


def weights_in(layer: tf.keras.layers.Layer) -> dict[str, tf.Variable]:
    """A layer's weights by their paths below the layer's own name, "query/kernel".

    Not by their order: Keras lists frozen weights last, so a frozen part would move all that
    follow.
    """
    return {path_of(weight).partition(f"{layer.name}/")[2]: weight for weight in layer.weights}


def rebuilt_stack(
    model: tf.keras.Model, pattern: SharingPattern, sources: Sequence[int]
) -> tf.keras.Model:
    """A new model of the same weights whose layers are put together in another way.

    Args:
        model: of `build_albert`, or built around one.
        pattern: of the new layers.
        sources: for each of them the old layer that it starts from. Layers that share a block take
            what the first of them starts from.
    """
    changes = {f"{half}_pattern": list(blocks) for half, blocks in pattern._asdict().items()}
    new_model = rebuilt(model, {"encoder": {"num_layers": len(sources), **changes}})
    old, new = layers_of(model)["encoder"], layers_of(new_model)["encoder"]
    for half in SharingPattern._fields:
        old_blocks, new_blocks = getattr(old, f"{half}_blocks"), getattr(new, f"{half}_blocks")
        for block, layer in first_layers(getattr(pattern, half)).items():
            source = old_blocks[getattr(old, f"{half}_pattern")[sources[layer]]]
            fill_layer(new_blocks[block], source)
    return new_model


def disagreements(
    stack: SharedTransformerStack, pattern: SharingPattern, sources: Sequence[int]
) -> list[tuple[str, int, int]]:
    """Where layers that would share a block start from weights that differ: (half, first layer
    with the block, layer), with the arguments of `rebuilt_stack`."""
    found = []
    for half in SharingPattern._fields:
        blocks, old_pattern = getattr(stack, f"{half}_blocks"), getattr(stack, f"{half}_pattern")
        firsts = first_layers(getattr(pattern, half))
        for layer, block in enumerate(getattr(pattern, half)):
            first = firsts[block]
            one, other = (old_pattern[sources[index]] for index in (first, layer))
            others = weights_in(blocks[other])
            if one != other and not all(
                np.array_equal(weight, others[name])
                for name, weight in weights_in(blocks[one]).items()
            ):
                found.append((half, first, layer))
    return found


def first_layers(blocks: Sequence[int]) -> dict[int, int]:
    """The first layer that uses each block.

    >>> first_layers((0, 1, 1, 0))
    {0: 0, 1: 1}
    """
    return {block: blocks.index(block) for block in dict.fromkeys(blocks)}
