"""SharedTransformerStack: L transformer layers over as many blocks of weights as a pattern says."""

import tensorflow as tf

from albert_keras.layers.attention import SelfAttention, additive_mask
from albert_keras.layers.feed_forward import FeedForward
from albert_keras.layers.linear import as_rows
from albert_keras.layers.recomputed import recomputed
from albert_keras.layers.sublayers import build_sublayer


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class SharedTransformerStack(tf.keras.layers.Layer):
    """L post-norm transformer layers; layer i uses attention block `attention_pattern[i]` and
    feed-forward block `ffn_pattern[i]`.

    The patterns are the whole of ALBERT's parameter sharing:

        all shared       (0, 0, 0, 0)   (0, 0, 0, 0)
        attention only   (0, 0, 0, 0)   (0, 1, 2, 3)
        ffn only         (0, 1, 2, 3)   (0, 0, 0, 0)
        none             (0, 1, 2, 3)   (0, 1, 2, 3)
        groups of two    (0, 0, 1, 1)   (0, 0, 1, 1)

    Args:
        num_layers: int > 0, L.
        num_heads: int > 0, N; it divides H.
        intermediate_size: int > 0, I.
        attention_pattern: L block indices from 0 without gaps. Default: all 0, one block.
        ffn_pattern: the same for the feed-forward blocks.
        activation: str, a name of `layers.activations`. Default "gelu_tanh".
        dropout: float in [0, 1), rate on each half's output before its residual. Default 0.
        attention_dropout: float in [0, 1), rate on the attention probabilities. Default 0.
        layer_norm_epsilon: float > 0. Default 1e-12.
        initializer_range: float, standard deviation of the truncated normal that fills the
            kernels. Default 0.02.
        output_all_layers: bool, see the output. Default False.
        recompute: bool; while training a layer keeps its input alone for the gradient and is
            computed again there, which takes a third more time and a fraction of the memory. It
            needs both rates of dropout at 0. Default False.

    Input shape:
        hidden `(B, S, H)`, float; padding_mask `(B, S)`, 1 for a token and 0 for padding.

    Output shape:
        `(B, S, H)`; with `output_all_layers`, a list of L + 1 of them, the input first.

    Raises:
        ValueError: a pattern that is not L indices without gaps, H not a multiple of N, or
            `recompute` with dropout.

    Example:

    >>> stack = SharedTransformerStack(num_layers=4, num_heads=2, intermediate_size=16)
    >>> stack(tf.ones([3, 5, 8]), tf.ones([3, 5], tf.int32)).shape
    TensorShape([3, 5, 8])
    >>> len(stack.attention_blocks)
    1

    Reference:
        ALBERT, section 3.1, "Cross-layer parameter sharing", https://arxiv.org/abs/1909.11942
    """

    def __init__(
        self,
        num_layers,
        num_heads,
        intermediate_size,
        attention_pattern=None,
        ffn_pattern=None,
        activation="gelu_tanh",
        dropout=0.0,
        attention_dropout=0.0,
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        output_all_layers=False,
        recompute=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if num_layers < 1:
            raise ValueError(f"`num_layers` must be at least 1. Received: {num_layers}.")
        if recompute and (dropout or attention_dropout):
            raise ValueError(
                "A layer that is computed again would draw another dropout. Received: "
                f"recompute=True with dropout {dropout} and attention_dropout "
                f"{attention_dropout}. Set both to 0, or leave out `recompute`."
            )
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.intermediate_size = intermediate_size
        self.attention_pattern = self._checked("attention_pattern", attention_pattern)
        self.ffn_pattern = self._checked("ffn_pattern", ffn_pattern)
        self.activation = activation
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.output_all_layers = output_all_layers
        self.recompute = recompute
        self.attention_blocks = [
            SelfAttention(
                num_heads,
                dropout=dropout,
                attention_dropout=attention_dropout,
                layer_norm_epsilon=layer_norm_epsilon,
                initializer_range=initializer_range,
                dtype=self.dtype_policy,
                name=f"attention_{block}",
            )
            for block in range(max(self.attention_pattern) + 1)
        ]
        self.ffn_blocks = [
            FeedForward(
                intermediate_size,
                activation=activation,
                dropout=dropout,
                layer_norm_epsilon=layer_norm_epsilon,
                initializer_range=initializer_range,
                dtype=self.dtype_policy,
                name=f"ffn_{block}",
            )
            for block in range(max(self.ffn_pattern) + 1)
        ]

    def build(self, hidden_shape):
        for block in (*self.attention_blocks, *self.ffn_blocks):
            build_sublayer(block, *hidden_shape)
        super().build(hidden_shape)

    def call(self, hidden, padding_mask, training=None):
        # Read, cast and joined once, however many layers share them.
        attention_weights = [block.read_weights() for block in self.attention_blocks]
        ffn_weights = [block.read_weights() for block in self.ffn_blocks]
        additive = additive_mask(padding_mask)
        # The layers hand on rows, B S, H: shapes are computed once, and a reshape between a product
        # and what follows it would keep a runtime from fusing the two.
        rows, shape = as_rows(hidden), tf.shape(hidden)
        outputs = [hidden]
        for a, f in zip(self.attention_pattern, self.ffn_pattern, strict=True):
            layer = self._layer(a, f, training)
            weights = attention_weights[a], ffn_weights[f]
            if self.recompute and training is True:
                rows, weights = recomputed(layer)(rows, additive, weights)
                attention_weights[a], ffn_weights[f] = weights
            else:
                rows = layer(rows, additive, weights)
            outputs.append(tf.reshape(rows, shape))
        return outputs if self.output_all_layers else outputs[-1]

    def _layer(self, attention_block, ffn_block, training):
        attention, ffn = self.attention_blocks[attention_block], self.ffn_blocks[ffn_block]

        def layer(rows, additive, weights):
            attention_weights, ffn_weights = weights
            rows = attention.apply(rows, additive, attention_weights, training)
            return ffn.apply(rows, ffn_weights, training)

        return layer

    def get_config(self):
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            "num_heads": self.num_heads,
            "intermediate_size": self.intermediate_size,
            "attention_pattern": list(self.attention_pattern),
            "ffn_pattern": list(self.ffn_pattern),
            "activation": self.activation,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
            "output_all_layers": self.output_all_layers,
            "recompute": self.recompute,
        }

    def compute_output_shape(self, hidden_shape, padding_mask_shape=None):
        if self.output_all_layers:
            return [tuple(hidden_shape)] * (self.num_layers + 1)
        return hidden_shape

    def _checked(self, name, pattern):
        pattern = (0,) * self.num_layers if pattern is None else tuple(pattern)
        if len(pattern) != self.num_layers or set(pattern) != set(range(max(pattern) + 1)):
            raise ValueError(
                f"`{name}` must name a block for each of the {self.num_layers} layers, counted "
                f"from 0 without gaps. Received: {pattern}."
            )
        return pattern
