"""FactorizedEmbedding: token, position and segment tables of width E, projected to width H."""

import tensorflow as tf

from albert_keras.layers.layer_norm import LayerNorm
from albert_keras.layers.linear import Linear
from albert_keras.layers.sublayers import build_sublayer, dropout_or_none, full_precision_weight


def rows(table: tf.Variable) -> tf.Tensor:
    """The table as a tensor to gather from, such that its gradient is dense.

    A gather's gradient is sparse, with one entry for every use of a row, and clipping to a global
    norm would then take the norm of the entries, not of their sum. A reshape's gradient is dense.
    """
    return tf.reshape(tf.convert_to_tensor(table), table.shape)


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class FactorizedEmbedding(tf.keras.layers.Layer):
    """W LayerNorm(word[token] + position + type[segment]) + b, from tables of width E to width H.

    V E + E H parameters where a table of width H has V H. Without a projection (W, b) when E == H,
    which is BERT's embedding, unless `always_project`.

    The word table is the second output, so that `NgramMaskedLM` can predict with the very same
    weights: a layer inside another layer's config would not survive saving.

    Args:
        vocabulary_size: int > 0, V.
        embedding_size: int > 0, E.
        hidden_size: int > 0, H.
        max_positions: int > 0, P, the longest sequence. Default 512.
        num_segments: int > 0, how many segment ids there are. Default 2.
        dropout: float in [0, 1), rate after the LayerNorm, before the projection. Default 0.
        layer_norm_epsilon: float > 0. Default 1e-12.
        initializer_range: float, standard deviation of the truncated normal that fills tables and
            kernel. Default 0.02.
        always_project: bool, a projection even when E == H. Default False.

    Input shape:
        token_ids `(B, S)`, int in [0, V); segment_ids `(B, S)`, int in [0, num_segments).

    Output shape:
        hidden `(B, S, H)` and the word table `(V, E)`.

    Raises:
        ValueError: a size below 1, a rate outside [0, 1), or S above `max_positions` where S is
            known when the graph is made.

    Example:

    >>> ids = tf.constant([[2, 9, 3]])
    >>> hidden, table = FactorizedEmbedding(10, 4, 8)(ids, tf.zeros_like(ids))
    >>> hidden.shape, table.shape
    (TensorShape([1, 3, 8]), TensorShape([10, 4]))

    Reference:
        ALBERT, section 3.1, "Factorized embedding parameterization",
        https://arxiv.org/abs/1909.11942
    """

    def __init__(
        self,
        vocabulary_size,
        embedding_size,
        hidden_size,
        max_positions=512,
        num_segments=2,
        dropout=0.0,
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        always_project=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        sizes = {
            "vocabulary_size": vocabulary_size,
            "embedding_size": embedding_size,
            "hidden_size": hidden_size,
            "max_positions": max_positions,
            "num_segments": num_segments,
        }
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"`{name}` must be at least 1. Received: {size}.")
            setattr(self, name, size)
        self.dropout = dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.always_project = always_project
        self.dropout_layer = dropout_or_none(self, dropout)

    def build(self, token_ids_shape):
        def table(name, rows):
            normal = tf.keras.initializers.TruncatedNormal(stddev=self.initializer_range)
            return full_precision_weight(self, name, (rows, self.embedding_size), normal)

        self.word_embeddings = table("word_embeddings", self.vocabulary_size)
        self.position_embeddings = table("position_embeddings", self.max_positions)
        self.token_type_embeddings = table("token_type_embeddings", self.num_segments)
        self.layer_norm = LayerNorm(
            self.layer_norm_epsilon, dtype=self.dtype_policy, name="LayerNorm"
        )
        build_sublayer(self.layer_norm, *token_ids_shape, self.embedding_size)
        self.embedding_hidden_mapping_in = None
        if self.always_project or self.embedding_size != self.hidden_size:
            self.embedding_hidden_mapping_in = Linear(
                self.hidden_size,
                initializer_range=self.initializer_range,
                dtype=self.dtype_policy,
                name="embedding_hidden_mapping_in",
            )
            build_sublayer(self.embedding_hidden_mapping_in, *token_ids_shape, self.embedding_size)
        super().build(token_ids_shape)

    def call(self, token_ids, segment_ids, training=None):
        self._check_length(token_ids.shape[1])
        length = tf.shape(token_ids)[1]
        # The sum stays in float32: a table read in 16 bits would also gather its gradient in 16.
        words, types = rows(self.word_embeddings), rows(self.token_type_embeddings)
        positions = tf.convert_to_tensor(self.position_embeddings)[:length]
        hidden = tf.gather(words, token_ids) + tf.gather(types, segment_ids) + positions  # B, S, E
        hidden = self.layer_norm(hidden)
        if self.dropout_layer is not None:
            hidden = self.dropout_layer(hidden, training=training)
        if self.embedding_hidden_mapping_in is not None:
            hidden = self.embedding_hidden_mapping_in(hidden)  # B, S, H
        return hidden, tf.cast(words, self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_size": self.embedding_size,
            "hidden_size": self.hidden_size,
            "max_positions": self.max_positions,
            "num_segments": self.num_segments,
            "dropout": self.dropout,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
            "always_project": self.always_project,
        }

    def compute_output_shape(self, token_ids_shape, segment_ids_shape=None):
        self._check_length(token_ids_shape[1])
        return (
            (*token_ids_shape, self.hidden_size),
            (self.vocabulary_size, self.embedding_size),
        )

    def _check_length(self, length):
        if length is not None and length > self.max_positions:
            raise ValueError(
                "A sequence must not be longer than the positions. Received: length "
                f"{length}, max_positions {self.max_positions}. Shorten it, or build the model "
                "with more positions."
            )
