"""SelfAttention: the attention half of a transformer layer, with its residual and LayerNorm."""

import tensorflow as tf

from albert_keras.layers.layer_norm import LayerNorm
from albert_keras.layers.linear import Linear
from albert_keras.layers.sublayers import build_sublayer


def attention_scores(query: tf.Tensor, key: tf.Tensor, padding_mask: tf.Tensor) -> tf.Tensor:
    """q k^T / sqrt(D), plus -10000 where the key is padding; float32 `(B, N, S, S)`.

    The original adds -10000 rather than a huge number: a row without any real token then attends
    as if there were no mask, instead of giving NaN.
    """
    scale = tf.cast(query.shape[-1], tf.float32) ** -0.5
    scores = tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32) * scale
    additive = (tf.cast(padding_mask, tf.float32) - 1.0) * 10000.0  # B, S
    return scores + additive[:, tf.newaxis, tf.newaxis, :]


def split_heads(x: tf.Tensor, num_heads: int) -> tf.Tensor:
    """`(B, S, H)` -> `(B, N, S, H/N)`."""
    batch, length, hidden = tf.shape(x)[0], tf.shape(x)[1], x.shape[-1]
    x = tf.reshape(x, [batch, length, num_heads, hidden // num_heads])
    return tf.transpose(x, [0, 2, 1, 3])


def merge_heads(x: tf.Tensor) -> tf.Tensor:
    """`(B, N, S, D)` -> `(B, S, N D)`."""
    batch, length = tf.shape(x)[0], tf.shape(x)[2]
    return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [batch, length, x.shape[1] * x.shape[3]])


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class SelfAttention(tf.keras.layers.Layer):
    """LayerNorm(x + attention(x)), multi-headed, each token over the tokens that are not padding.

    Scores, mask and softmax are float32 under every precision policy.

    Args:
        num_heads: int > 0, N; it divides H.
        dropout: float in [0, 1), rate on the projected output. Default 0.
        attention_dropout: float in [0, 1), rate on the attention probabilities. Default 0.
        layer_norm_epsilon: float > 0. Default 1e-12.
        initializer_range: float, standard deviation of the truncated normal that fills the
            kernels. Default 0.02.

    Dropout of Keras 3 draws the same mask on every replica of a tf.distribute strategy; Keras 2
    draws a different one on each.

    Input shape:
        hidden `(B, S, H)`, float; padding_mask `(B, S)`, 1 for a token and 0 for padding.

    Output shape:
        `(B, S, H)`.

    Raises:
        ValueError: H is not a multiple of `num_heads`.

    Example:

    >>> SelfAttention(num_heads=2)(tf.ones([3, 5, 8]), tf.ones([3, 5], tf.int32)).shape
    TensorShape([3, 5, 8])

    Reference:
        Attention Is All You Need, section 3.2, https://arxiv.org/abs/1706.03762
    """

    def __init__(
        self,
        num_heads,
        dropout=0.0,
        attention_dropout=0.0,
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if num_heads < 1:
            raise ValueError(f"`num_heads` must be at least 1. Received: {num_heads}.")
        self.num_heads = num_heads
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range

    def build(self, hidden_shape):
        size = hidden_shape[-1]
        if size % self.num_heads:
            raise ValueError(
                "The hidden size must be a multiple of `num_heads`. Received: hidden size "
                f"{size}, num_heads {self.num_heads}. Change one of them."
            )
        for name in ("query", "key", "value", "dense"):
            projection = Linear(
                size,
                initializer_range=self.initializer_range,
                dtype=self.dtype_policy,
                name=name,
            )
            build_sublayer(projection, *hidden_shape)
            setattr(self, name, projection)
        self.layer_norm = LayerNorm(
            self.layer_norm_epsilon, dtype=self.dtype_policy, name="LayerNorm"
        )
        build_sublayer(self.layer_norm, *hidden_shape)
        self.dropout_layer = self.attention_dropout_layer = None
        if self.dropout > 0:
            self.dropout_layer = tf.keras.layers.Dropout(
                self.dropout, dtype=self.dtype_policy, name="dropout"
            )
        if self.attention_dropout > 0:
            self.attention_dropout_layer = tf.keras.layers.Dropout(
                self.attention_dropout, dtype=self.dtype_policy, name="attention_dropout"
            )
        super().build(hidden_shape)

    def call(self, hidden, padding_mask, training=None):
        query, key, value = (
            split_heads(projection(hidden), self.num_heads)
            for projection in (self.query, self.key, self.value)
        )
        scores = attention_scores(query, key, padding_mask)
        probabilities = tf.cast(tf.nn.softmax(scores), self.compute_dtype)
        if self.attention_dropout_layer is not None:
            probabilities = self.attention_dropout_layer(probabilities, training=training)
        output = self.dense(merge_heads(tf.matmul(probabilities, value)))
        if self.dropout_layer is not None:
            output = self.dropout_layer(output, training=training)
        return self.layer_norm(hidden + output)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
        }

    def compute_output_shape(self, hidden_shape, padding_mask_shape=None):
        return hidden_shape
