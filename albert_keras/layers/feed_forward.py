"""FeedForward: the position-wise half of a transformer layer, with its residual and LayerNorm."""

import tensorflow as tf

from albert_keras.layers.activations import activation_named, fused_activation_named
from albert_keras.layers.layer_norm import LayerNorm, add_and_norm
from albert_keras.layers.linear import Linear, as_rows, linear
from albert_keras.layers.sublayers import build_sublayer, dropout_or_none


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class FeedForward(tf.keras.layers.Layer):
    """LayerNorm(x + W2 activation(W1 x + b1) + b2).

    Args:
        intermediate_size: int > 0, I, the width between the two projections.
        activation: str, a name of `layers.activations`. Default "gelu_tanh".
        dropout: float in [0, 1), rate on the output before the residual. Default 0.
        layer_norm_epsilon: float > 0. Default 1e-12.
        initializer_range: float, standard deviation of the truncated normal that fills the
            kernels. Default 0.02.

    Input shape:
        `(B, S, H)`, float.

    Output shape:
        `(B, S, H)`.

    Raises:
        ValueError: an unknown activation, `intermediate_size` below 1, or a rate outside [0, 1).

    Example:

    >>> FeedForward(intermediate_size=32)(tf.ones([3, 5, 8])).shape
    TensorShape([3, 5, 8])

    Reference:
        Attention Is All You Need, section 3.3, https://arxiv.org/abs/1706.03762
    """

    def __init__(
        self,
        intermediate_size,
        activation="gelu_tanh",
        dropout=0.0,
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.intermediate_size = intermediate_size
        self.activation = activation
        self.dropout = dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.dropout_layer = dropout_or_none(self, dropout)
        self.intermediate = Linear(
            intermediate_size,
            activation=activation,
            initializer_range=initializer_range,
            dtype=self.dtype_policy,
            name="intermediate",
        )

    def build(self, hidden_shape):
        build_sublayer(self.intermediate, *hidden_shape)
        self.output_dense = Linear(
            hidden_shape[-1],
            initializer_range=self.initializer_range,
            dtype=self.dtype_policy,
            name="output_dense",
        )
        build_sublayer(self.output_dense, *hidden_shape[:-1], self.intermediate_size)
        self.layer_norm = LayerNorm(
            self.layer_norm_epsilon, dtype=self.dtype_policy, name="LayerNorm"
        )
        build_sublayer(self.layer_norm, *hidden_shape)
        super().build(hidden_shape)

    def call(self, hidden, training=None):
        rows = self.apply(as_rows(hidden), self.read_weights(), training)
        return tf.reshape(rows, tf.shape(hidden))

    def read_weights(self):
        """The weights in the compute type, to be read once for all layers that share them."""
        return (
            *self.intermediate.read_weights(),
            *self.output_dense.read_weights(),
            *self.layer_norm.read_weights(),
        )

    def apply(self, rows, weights, training):
        """What `call` does, of rows `(B S, H)`, with weights that have been read."""
        kernel, bias, output_kernel, output_bias, gamma, beta = weights
        fuse = training is True
        named = fused_activation_named if fuse else activation_named
        inner = named(self.activation)(linear(rows, kernel, bias))  # B S, I
        output = linear(inner, output_kernel, output_bias)
        if self.dropout_layer is not None:
            output = self.dropout_layer(output, training=training)
        return add_and_norm(self.layer_norm_epsilon, fuse)(output, rows, gamma, beta)

    def get_config(self):
        return {
            **super().get_config(),
            "intermediate_size": self.intermediate_size,
            "activation": self.activation,
            "dropout": self.dropout,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
        }

    def compute_output_shape(self, hidden_shape):
        return hidden_shape
