"""LayerNorm: layer normalisation in float32 under every precision policy."""

import functools
from collections.abc import Callable

import tensorflow as tf

from albert_keras.layers.fused import fused
from albert_keras.layers.sublayers import full_precision_weight


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """gamma (x - mean) / sqrt(variance + epsilon) + beta over the last axis, all in float32."""
    x = tf.cast(x, tf.float32)
    mean = tf.reduce_mean(x, axis=-1, keepdims=True)
    centred = x - mean
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    return centred * tf.math.rsqrt(variance + epsilon) * gamma + beta


@functools.cache
def add_and_norm(epsilon: float, training: bool) -> Callable[..., tf.Tensor]:
    """A function of (x, residual, gamma, beta): layer_norm(x + residual), in x's type.

    It is one kernel for training, see `fused`.
    """

    def function(x, residual, gamma, beta):
        total = tf.cast(x, tf.float32) + tf.cast(residual, tf.float32)
        return tf.cast(layer_norm(total, gamma, beta, epsilon), x.dtype)

    return fused(function) if training else function


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class LayerNorm(tf.keras.layers.Layer):
    """Layer normalisation over the last axis, computed in float32 under every precision policy.

    The original's epsilon of 1e-12 is far below the resolution of a 16-bit variance, so the
    arithmetic and both weights stay in float32 and only the result is cast to the policy's
    compute type. The layers of the two Kerases differ from each other in this.

    Args:
        epsilon: float > 0, added to the variance. Default 1e-12, as the original.

    Input shape:
        `(..., I)`, float. It is not cast to the compute type first.

    Output shape:
        The input's, in the compute type of the layer's policy.

    Raises:
        ValueError: `epsilon` not above 0.

    Example:

    >>> LayerNorm()(tf.constant([[1.0, 3.0]])).numpy()
    array([[-1.,  1.]], dtype=float32)

    Reference:
        Layer Normalization, https://arxiv.org/abs/1607.06450
    """

    def __init__(self, epsilon=1e-12, **kwargs):
        super().__init__(autocast=False, **kwargs)
        if epsilon <= 0:
            raise ValueError(f"`epsilon` must be above 0. Received: {epsilon}.")
        self.epsilon = epsilon

    def build(self, inputs_shape):
        size = inputs_shape[-1]
        self.gamma = full_precision_weight(self, "gamma", (size,), "ones")
        self.beta = full_precision_weight(self, "beta", (size,), "zeros")
        super().build(inputs_shape)

    def read_weights(self):
        """gamma and beta, float32."""
        return tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta)

    def call(self, inputs):
        gamma, beta = self.read_weights()
        return tf.cast(layer_norm(inputs, gamma, beta, self.epsilon), self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "epsilon": self.epsilon}

    def compute_output_shape(self, inputs_shape):
        return inputs_shape
