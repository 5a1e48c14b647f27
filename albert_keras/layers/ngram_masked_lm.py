"""NgramMaskedLM: the masked-language-model objective as one layer, masking and prediction."""

import tensorflow as tf

from albert_keras.layers.layer_norm import LayerNorm
from albert_keras.layers.linear import Linear
from albert_keras.layers.sublayers import build_sublayer, full_precision_weight
from albert_keras.masking import ngram_mask, prediction_slots


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class NgramMaskedLM(tf.keras.layers.Layer):
    """Masks spans of one to N whole words, and predicts the pieces they hid.

    `mask` turns token ids into a masked batch; calling the layer gives logits for the masked
    positions only, never for all of `(B, S)`: gather, Linear to width E, LayerNorm, then the
    product with the word table that `FactorizedEmbedding` gives, plus a bias.

    Args:
        vocabulary_size: int > 0, V.
        embedding_size: int > 0, E.
        ngram: int > 0, N, the longest span in words; length n is drawn with probability
            (1/n) / (1 + 1/2 + ... + 1/N). Default 3.
        rate: float in (0, 1], share of a row's tokens to mask. Default 0.15.
        mask_fraction: float in [0, 1], share of the chosen tokens that become `[MASK]`.
            Default 0.8.
        random_fraction: float in [0, 1], share that become a random piece; the others stay.
            Default 0.1.
        max_predictions: int > 0, M, slots a row. Default: `rate` times S, rounded, which no row
            can exceed.
        mask_id: int, id of `[MASK]`. Default 4.
        activation: str, a name of `layers.activations`. Default "gelu_tanh".
        layer_norm_epsilon: float > 0. Default 1e-12.
        initializer_range: float, standard deviation of the truncated normal that fills the
            kernel. Default 0.02.

    Input shape:
        hidden `(B, S, H)`, float; masked_positions `(B, M)`, int in [0, S); table `(V, E)`.

    Output shape:
        `(B, M, V)`, float32 under every policy.

    Raises:
        ValueError: a size below 1, or fractions that are no shares of one.

    Example:

    >>> layer = NgramMaskedLM(vocabulary_size=10, embedding_size=4)
    >>> layer(tf.ones([2, 5, 8]), tf.constant([[1, 3], [2, 0]]), tf.ones([10, 4])).shape
    TensorShape([2, 2, 10])

    Reference:
        ALBERT, section 4.1 and equation 1, https://arxiv.org/abs/1909.11942
    """

    def __init__(
        self,
        vocabulary_size,
        embedding_size,
        ngram=3,
        rate=0.15,
        mask_fraction=0.8,
        random_fraction=0.1,
        max_predictions=None,
        mask_id=4,
        activation="gelu_tanh",
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        sizes = {
            "vocabulary_size": vocabulary_size,
            "embedding_size": embedding_size,
            "ngram": ngram,
            "max_predictions": max_predictions,
        }
        for name, size in sizes.items():
            if size is not None and size < 1:
                raise ValueError(f"`{name}` must be at least 1. Received: {size}.")
            setattr(self, name, size)
        if not 0 < rate <= 1:
            raise ValueError(f"`rate` must be above 0 and at most 1. Received: {rate}.")
        if min(mask_fraction, random_fraction) < 0 or mask_fraction + random_fraction > 1:
            raise ValueError(
                "`mask_fraction` and `random_fraction` must be shares of one whole. Received: "
                f"{mask_fraction} and {random_fraction}."
            )
        self.rate = rate
        self.mask_fraction = mask_fraction
        self.random_fraction = random_fraction
        self.mask_id = mask_id
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.dense = Linear(
            embedding_size,
            activation=activation,
            initializer_range=initializer_range,
            dtype=self.dtype_policy,
            name="dense",
        )
        self.layer_norm = LayerNorm(layer_norm_epsilon, dtype=self.dtype_policy, name="LayerNorm")

    def mask(self, token_ids, seed, piece_kinds, pad_id=0):
        """Masks a batch with this layer's settings; see `albert_keras.masking.ngram_mask`.

        Args:
            token_ids: int32 `(B, S)`, S static.
            seed: int `(2,)`; equal seeds give equal masks.
            piece_kinds: int8 `(V,)`, `Tokenizer.piece_kinds`.
            pad_id: int, the id that fills rows up. Default 0.

        Returns:
            Dict of token_ids `(B, S)`, masked_positions, masked_ids and masked_weights `(B, M)`.
        """
        max_predictions = self.max_predictions
        if max_predictions is None:
            max_predictions = prediction_slots(token_ids.shape[1], self.rate)
        return ngram_mask(
            token_ids,
            piece_kinds,
            seed,
            max_predictions=max_predictions,
            mask_id=self.mask_id,
            pad_id=pad_id,
            ngram=self.ngram,
            rate=self.rate,
            mask_fraction=self.mask_fraction,
            random_fraction=self.random_fraction,
        )

    def build(self, hidden_shape):
        build_sublayer(self.dense, *hidden_shape)
        build_sublayer(self.layer_norm, *hidden_shape[:-1], self.embedding_size)
        self.output_bias = full_precision_weight(
            self, "output_bias", (self.vocabulary_size,), "zeros"
        )
        super().build(hidden_shape)

    def call(self, hidden, masked_positions, table):
        masked = tf.gather(hidden, masked_positions, batch_dims=1)  # B, M, H
        masked = self.layer_norm(self.dense(masked))  # B, M, E
        rows = tf.reshape(masked, [-1, self.embedding_size])
        logits = tf.cast(tf.matmul(rows, table, transpose_b=True), tf.float32)
        logits = tf.nn.bias_add(logits, tf.convert_to_tensor(self.output_bias))
        batch, slots = tf.shape(masked_positions)[0], tf.shape(masked_positions)[1]
        logits = tf.reshape(logits, [batch, slots, self.vocabulary_size])
        logits.set_shape(masked_positions.shape.concatenate(self.vocabulary_size))
        return logits

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_size": self.embedding_size,
            "ngram": self.ngram,
            "rate": self.rate,
            "mask_fraction": self.mask_fraction,
            "random_fraction": self.random_fraction,
            "max_predictions": self.max_predictions,
            "mask_id": self.mask_id,
            "activation": self.activation,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
        }

    # No compute_output_shape, as in SOPHead: the logits are float32.
