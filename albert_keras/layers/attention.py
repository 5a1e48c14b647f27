"""SelfAttention: the attention half of a transformer layer, with its residual and LayerNorm."""

import functools
from collections.abc import Callable

import tensorflow as tf

from albert_keras.layers.fused import fused
from albert_keras.layers.layer_norm import LayerNorm, add_and_norm
from albert_keras.layers.linear import Linear, as_rows, linear
from albert_keras.layers.sublayers import build_sublayer, dropout_or_none
from albert_keras.xla_kernel import xla_kernel


def additive_mask(padding_mask: tf.Tensor) -> tf.Tensor:
    """`(B, S)`, 1 for a token, to float32 `(B, 1, 1, S)`: 0 for a token, -10000 for padding.

    As the original, which adds -10000 rather than a huge number: a row without any real token then
    attends as if there were no mask, instead of giving NaN.
    """
    additive = (tf.cast(padding_mask, tf.float32) - 1.0) * 10000.0
    # Not by slicing with tf.newaxis twice, which LiteRT cannot convert.
    return tf.expand_dims(tf.expand_dims(additive, 1), 1)


@functools.cache
def masked_softmax(scale: float, training: bool) -> Callable[..., tf.Tensor]:
    """A function of (products, additive): softmax(scale products + additive) over the last axis.

    In float32, whatever the type of the products, which is the result's. It is one kernel for
    training, see `fused`; the mask has no gradient.
    """

    def function(products, additive):
        scores = tf.cast(products, tf.float32) * scale + additive
        return tf.cast(tf.nn.softmax(scores), products.dtype)

    def gradient(probabilities, upstream):
        p, upstream = tf.cast(probabilities, tf.float32), tf.cast(upstream, tf.float32)
        centred = upstream - tf.reduce_sum(p * upstream, axis=-1, keepdims=True)
        return tf.cast(p * centred * scale, probabilities.dtype)

    return fused(function, gradient) if training else function


@functools.cache
def attention_to_train(scale: float) -> Callable[..., tf.Tensor]:
    """A function of (query, key, value, additive), the context: `masked_softmax` between products.

    Its gradient keeps a number for each query, the log of its sum of exponentials, and gets the
    probabilities from that again, as FlashAttention does: `(B, N, S, S)` for every layer is 0.5 of
    the 3.1 GB of a step of ALBERT-base at 4 x 512. And as FlashAttention, it takes the mean of a
    query's gradients from the context as rounded: in bfloat16 a query's gradient is three times
    less exact (1.5e-2 of its norm, not 5e-3) where keys and values have a common part as large as
    their deviation. Summing the probabilities again for it costs 0.4 s of a core at that shape.
    """

    @xla_kernel
    def forward(products, additive):
        scores = tf.cast(products, tf.float32) * scale + additive
        log_sum = tf.reduce_logsumexp(scores, axis=-1)  # B, N, S
        return tf.cast(tf.exp(scores - log_sum[..., tf.newaxis]), products.dtype), log_sum

    @xla_kernel
    def backward(products, upstream, additive, log_sum, mean):
        """All with the keys first, so that no product needs a transposed copy of it."""
        scores = tf.cast(products, tf.float32) * scale + tf.transpose(additive, [0, 1, 3, 2])
        probabilities = tf.exp(scores - log_sum[:, :, tf.newaxis, :])
        centred = tf.cast(upstream, tf.float32) - mean[:, :, tf.newaxis, :]
        scores = tf.cast(probabilities * centred * scale, products.dtype)
        return tf.cast(probabilities, products.dtype), scores

    @tf.custom_gradient
    def attend(query, key, value, additive):
        products = tf.matmul(query, key, transpose_b=True)  # B, N, S, S
        probabilities, log_sum = forward(products, additive)
        context = tf.matmul(probabilities, value)

        def gradient(upstream):
            mean = tf.cast(upstream, tf.float32) * tf.cast(context, tf.float32)
            mean = tf.reduce_sum(mean, axis=-1)  # B, N, S
            # Or TensorFlow would compute it as soon as it can, in the forward pass.
            with tf.control_dependencies([upstream]):
                products = tf.matmul(key, query, transpose_b=True)
            probabilities, scores = backward(
                products, tf.matmul(value, upstream, transpose_b=True), additive, log_sum, mean
            )
            return (
                tf.matmul(scores, key, transpose_a=True),
                tf.matmul(scores, query),
                tf.matmul(probabilities, upstream),
                None,
            )

        return context, gradient

    return attend


def split_heads(rows: tf.Tensor, additive: tf.Tensor, parts: int, num_heads: int):
    """`(B S, parts H)` to a list of `parts`, `(B, N, S, H/N)`; B and S are those of the mask."""
    shape = tf.shape(additive)
    size = rows.shape[-1] // (parts * num_heads)
    x = tf.reshape(rows, [shape[0], shape[3], parts, num_heads, size])
    return tf.unstack(tf.transpose(x, [2, 0, 3, 1, 4]))


def merge_heads(x: tf.Tensor) -> tf.Tensor:
    """`(B, N, S, D)` to `(B S, N D)`."""
    return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [-1, x.shape[1] * x.shape[3]])


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

    Input shape:
        hidden `(B, S, H)`, float; padding_mask `(B, S)`, 1 for a token and 0 for padding.

    Output shape:
        `(B, S, H)`.

    Raises:
        ValueError: H is not a multiple of `num_heads`, or a rate is outside [0, 1).

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
        self.dropout_layer = dropout_or_none(self, dropout)
        self.attention_dropout_layer = dropout_or_none(
            self, attention_dropout, name="attention_dropout"
        )

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
        super().build(hidden_shape)

    def call(self, hidden, padding_mask, training=None):
        additive = additive_mask(padding_mask)
        rows = self.apply(as_rows(hidden), additive, self.read_weights(), training)
        return tf.reshape(rows, tf.shape(hidden))

    def read_weights(self):
        """The weights in the compute type, to be read once for all layers that share them; those
        of query, key and value side by side, for one matrix product."""
        projections = (self.query, self.key, self.value)
        kernels, biases = zip(*(layer.read_weights() for layer in projections), strict=True)
        return (
            tf.concat(kernels, axis=1),
            tf.concat(biases, axis=0),
            *self.dense.read_weights(),
            *self.layer_norm.read_weights(),
        )

    def apply(self, rows, additive, weights, training):
        """What `call` does, of rows `(B S, H)`, with the mask of `additive_mask` and weights that
        have been read."""
        kernels, biases, kernel, bias, gamma, beta = weights
        fuse = training is True
        query, key, value = split_heads(linear(rows, kernels, biases), additive, 3, self.num_heads)
        scale = query.shape[-1] ** -0.5
        if fuse and self.attention_dropout_layer is None:
            context = attention_to_train(scale)(query, key, value, additive)
        else:
            products = tf.matmul(query, key, transpose_b=True)  # B, N, S, S
            probabilities = masked_softmax(scale, fuse)(products, additive)
            if self.attention_dropout_layer is not None:
                probabilities = self.attention_dropout_layer(probabilities, training=training)
            context = tf.matmul(probabilities, value)
        output = linear(merge_heads(context), kernel, bias)
        if self.dropout_layer is not None:
            output = self.dropout_layer(output, training=training)
        return add_and_norm(self.layer_norm_epsilon, fuse)(output, rows, gamma, beta)

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
