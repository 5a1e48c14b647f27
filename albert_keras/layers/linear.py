"""Linear: a dense projection of the last axis as one matrix product."""

import tensorflow as tf

from albert_keras.layers.activations import activation_named


def as_rows(x: tf.Tensor) -> tf.Tensor:
    """`(..., I)` to two dimensions, `(rows, I)`."""
    return tf.reshape(x, [-1, x.shape[-1]])


def linear(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """x W + b over the last axis, for a tensor of any rank, as one matrix product."""
    if x.shape.rank == 2:
        return tf.nn.bias_add(tf.matmul(x, kernel), bias)
    shape = tf.shape(x)
    y = linear(as_rows(x), kernel, bias)
    y = tf.reshape(y, tf.concat([shape[:-1], [y.shape[-1]]], axis=0))
    y.set_shape(x.shape[:-1].concatenate(kernel.shape[-1]))
    return y


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class Linear(tf.keras.layers.Layer):
    """activation(x W + b) over the last axis.

    What `tf.keras.layers.Dense` computes, as the same graph on both Kerases: one two-dimensional
    matrix product whatever the rank of the input, where Dense of Keras 2 adds a dozen small ops
    for every unknown axis.

    Args:
        units: int > 0, size of the output's last axis.
        activation: str, a name of `layers.activations`. Default "linear".
        initializer_range: float, standard deviation of the truncated normal that fills the
            kernel. Default 0.02.

    Input shape:
        `(..., I)`, float.

    Output shape:
        `(..., units)`.

    Raises:
        ValueError: an unknown activation, or `units` below 1.

    Example:

    >>> Linear(3)(tf.ones([2, 5, 4])).shape
    TensorShape([2, 5, 3])
    """

    def __init__(self, units, activation="linear", initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        if units < 1:
            raise ValueError(f"`units` must be at least 1. Received: {units}.")
        self.units = units
        self.activation = activation
        self.initializer_range = initializer_range
        self._function = activation_named(activation)

    def build(self, inputs_shape):
        self.kernel = self.add_weight(
            name="kernel",
            shape=(inputs_shape[-1], self.units),
            initializer=tf.keras.initializers.TruncatedNormal(stddev=self.initializer_range),
        )
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        super().build(inputs_shape)

    def call(self, inputs):
        return self._function(linear(inputs, *self.read_weights()))

    def read_weights(self):
        """kernel and bias in the compute type."""
        return tf.convert_to_tensor(self.kernel), tf.convert_to_tensor(self.bias)

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "activation": self.activation,
            "initializer_range": self.initializer_range,
        }

    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape[:-1], self.units)
