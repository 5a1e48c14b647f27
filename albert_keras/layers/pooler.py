"""Pooler: one vector for a sequence, from its first token."""

import tensorflow as tf

from albert_keras.layers.linear import Linear
from albert_keras.layers.sublayers import build_sublayer


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class Pooler(tf.keras.layers.Layer):
    """tanh(h W + b) of the first token's hidden state, the one of `[CLS]`.

    Args:
        initializer_range: float, standard deviation of the truncated normal that fills the
            kernel. Default 0.02.

    Input shape:
        `(B, S, H)`, float.

    Output shape:
        `(B, H)`.

    Example:

    >>> Pooler()(tf.ones([2, 5, 8])).shape
    TensorShape([2, 8])
    """

    def __init__(self, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.initializer_range = initializer_range

    def build(self, hidden_shape):
        self.dense = Linear(
            hidden_shape[-1],
            activation="tanh",
            initializer_range=self.initializer_range,
            dtype=self.dtype_policy,
            name="dense",
        )
        build_sublayer(self.dense, hidden_shape[0], hidden_shape[-1])
        super().build(hidden_shape)

    def call(self, hidden):
        return self.dense(hidden[:, 0])

    def get_config(self):
        return {**super().get_config(), "initializer_range": self.initializer_range}

    def compute_output_shape(self, hidden_shape):
        return (hidden_shape[0], hidden_shape[-1])
