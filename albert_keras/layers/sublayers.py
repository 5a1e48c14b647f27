"""How a layer of ours builds the layers inside it, the same way on both Kerases."""

import tensorflow as tf


def build_sublayer(layer: tf.keras.layers.Layer, *shape: int | None) -> None:
    """Builds `layer` for inputs of `shape`, with its own name in its variables' names.

    Keras 2 names a variable after the name scopes open when it is made, and `build` opens none;
    without the scope, a LayerNorm inside a block could not be told from any other weight by name.
    Keras 3 opens one by itself and does not see this one.
    """
    with tf.name_scope(layer.name):
        layer.build(shape)


def dropout_or_none(
    layer: tf.keras.layers.Layer, rate: float, name: str = "dropout"
) -> tf.keras.layers.Dropout | None:
    """A Dropout for use inside `layer`, or None where `rate` is 0: then the graph has none.

    On Keras 3 every replica of a tf.distribute strategy draws the same mask, on Keras 2 each its
    own.
    """
    if not 0 <= rate < 1:
        raise ValueError(f"`{name}` must be at least 0 and below 1. Received: {rate}.")
    return tf.keras.layers.Dropout(rate, dtype=layer.dtype_policy, name=name) if rate else None


def full_precision_weight(
    layer: tf.keras.layers.Layer,
    name: str,
    shape: tuple[int, ...],
    initializer: tf.keras.initializers.Initializer | str,
) -> tf.Variable:
    """A float32 weight of `layer` that reads as float32 under every precision policy."""
    # The same option has two names.
    keyword = "autocast" if hasattr(tf.keras, "ops") else "experimental_autocast"
    return layer.add_weight(
        name=name, shape=shape, initializer=initializer, dtype="float32", **{keyword: False}
    )
