"""AnswerableSpanHead: where an answer starts, where it ends, and whether there is one."""

import tensorflow as tf

from albert_keras.layers import LayerNorm, Linear
from albert_keras.layers.sublayers import build_sublayer, dropout_or_none

# How many starts a prediction keeps, and how many ends of each.
BEAM = 5
_MASKED = -1e30


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class AnswerableSpanHead(tf.keras.layers.Layer):
    """Scores the spans of a passage that may answer a question, and whether one does.

    The head of SQuAD 2.0. Every position has a logit as an answer's first piece. The logits of the
    last piece depend on a first one, the end sees where the answer started: a dense layer of width
    H with tanh on [the position's output, the start's output], LayerNorm, and a dense layer to one
    number. Whether the question has no answer is told from [the mean output under the softmax of
    the starts, the output of `[CLS]`].

    It has two forms of the same weights. Training knows the starts, and scores every end for them.
    A prediction takes the `BEAM` most probable starts, and for each its `BEAM` most probable ends.

    Positions that `answer_mask` leaves out have the logit -1e30. A row with fewer than `BEAM`
    positions for an answer still gets `BEAM` of them; log probabilities near -1e30 mark those that
    are none.

    Args:
        dropout: float in [0, 1), rate on the features of answerability. Default 0.1.
        initializer_range: float, standard deviation of the truncated normal that fills the
            kernels. Default 0.02.

    Input shape:
        hidden `(B, S, H)`, float, S at least `BEAM`; segment_ids and padding_mask int32 `(B, S)`;
        for training start_positions, int32 `(B,)` in [0, S).

    Output shape:
        A dict, float32 under every policy but for the positions, which are int32.
        For training:
            start_logits, end_logits: `(B, S)`.
            unanswerable_logits: `(B,)`, of "no answer" against "an answer".
        Without start_positions:
            start_positions, start_log_probs: `(B, BEAM)`, the most probable first.
            end_positions, end_log_probs: `(B, BEAM, BEAM)`, of each start. An end may lie before
                its start.
            unanswerable_logits: `(B,)`.

    Raises:
        ValueError: `dropout` out of range.

    Example:

    >>> ids = tf.constant([[2, 17, 3, 45, 99, 3]])
    >>> hidden, segments, mask = tf.ones([1, 6, 8]), tf.constant([[0, 0, 0, 1, 1, 1]]), 0 * ids + 1
    >>> head = AnswerableSpanHead()
    >>> head(hidden, segments, mask, tf.constant([3]))["end_logits"].shape
    TensorShape([1, 6])
    >>> head(hidden, segments, mask)["end_positions"].shape
    TensorShape([1, 5, 5])

    Reference:
        https://github.com/google-research/albert, `create_v2_model` of squad_utils.py, after
        XLNet, https://arxiv.org/abs/1906.08237
    """

    def __init__(self, dropout=0.1, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.dropout = dropout
        self.initializer_range = initializer_range
        self._dropout = dropout_or_none(self, dropout)

    def build(self, hidden_shape):
        size = hidden_shape[-1]
        kernels = {"initializer_range": self.initializer_range}
        self.start_score = Linear(1, **kernels, dtype="float32", name="start_score")
        self.end_dense = Linear(size, "tanh", **kernels, dtype=self.dtype_policy, name="end_dense")
        self.end_norm = LayerNorm(dtype=self.dtype_policy, name="LayerNorm")
        self.end_score = Linear(1, **kernels, dtype="float32", name="end_score")
        self.answer_dense = Linear(size, "tanh", **kernels, dtype="float32", name="answer_dense")
        self.answer_score = tf.keras.layers.Dense(
            1,
            use_bias=False,  # as in the original
            kernel_initializer=tf.keras.initializers.TruncatedNormal(stddev=self.initializer_range),
            dtype="float32",
            name="answer_score",
        )
        for layer in (self.end_dense, self.answer_dense):
            build_sublayer(layer, None, 2 * size)
        for layer in (self.start_score, self.end_norm, self.end_score, self.answer_score):
            build_sublayer(layer, None, size)
        super().build(hidden_shape)

    def call(self, hidden, segment_ids, padding_mask, start_positions=None, training=None):
        mask = answer_mask(segment_ids, padding_mask)
        start_logits = tf.where(mask, self.start_score(hidden)[:, :, 0], _MASKED)
        unanswerable = self._unanswerable_logits(hidden, start_logits, training)
        if start_positions is not None:
            end_logits = self._end_logits(hidden, start_positions[:, tf.newaxis], mask)
            return {
                "start_logits": start_logits,
                "end_logits": end_logits[:, 0],
                "unanswerable_logits": unanswerable,
            }
        start_log_probs, starts = tf.math.top_k(tf.nn.log_softmax(start_logits), BEAM)
        end_logits = self._end_logits(hidden, starts, mask)
        end_log_probs, ends = tf.math.top_k(tf.nn.log_softmax(end_logits), BEAM)
        return {
            "start_positions": starts,
            "start_log_probs": start_log_probs,
            "end_positions": ends,
            "end_log_probs": end_log_probs,
            "unanswerable_logits": unanswerable,
        }

    def _end_logits(self, hidden, starts, mask):
        """`(B, K, S)`, the logits of every end for each of the starts `(B, K)`."""
        # [h, h_start] W as h W_1 + h_start W_2: the first product is the same for every start.
        kernel, bias = self.end_dense.read_weights()
        for_ends, for_starts = tf.split(kernel, 2)
        hidden = tf.cast(hidden, kernel.dtype)
        of_ends = tf.matmul(hidden, for_ends)
        of_starts = tf.matmul(tf.gather(hidden, starts, batch_dims=1), for_starts) + bias
        features = tf.nn.tanh(of_ends[:, tf.newaxis] + of_starts[:, :, tf.newaxis])  # B, K, S, H
        logits = self.end_score(self.end_norm(features))[..., 0]
        return tf.where(mask[:, tf.newaxis], logits, _MASKED)

    def _unanswerable_logits(self, hidden, start_logits, training):
        hidden = tf.cast(hidden, tf.float32)
        probabilities = tf.nn.softmax(start_logits)
        expected_start = tf.matmul(probabilities[:, tf.newaxis], hidden)[:, 0]
        features = self.answer_dense(tf.concat([expected_start, hidden[:, 0]], axis=-1))
        if self._dropout is not None:
            features = self._dropout(features, training=training)
        return self.answer_score(features)[:, 0]

    def get_config(self):
        return {
            **super().get_config(),
            "dropout": self.dropout,
            "initializer_range": self.initializer_range,
        }

    # No compute_output_shape, as in SOPHead: the logits are float32.


def answer_mask(segment_ids: tf.Tensor, padding_mask: tf.Tensor) -> tf.Tensor:
    """Where an answer may start or end: bool `(B, S)`, True in the passage and at `[CLS]`.

    Of rows `[CLS] question [SEP] passage [SEP]`, padded at their end. `[CLS]`, position 0, is the
    place of no answer.

    Args:
        segment_ids: int32 `(B, S)`, 1 for the passage and the `[SEP]` behind it, else 0.
        padding_mask: int32 `(B, S)`, 1 for a token, 0 for padding.

    Example:

    >>> segments = tf.constant([[0, 0, 0, 1, 1, 1, 0]])  # [CLS] Who [SEP] Ada wrote [SEP] and a pad
    >>> answer_mask(segments, tf.constant([[1, 1, 1, 1, 1, 1, 0]])).numpy().astype(int)
    array([[1, 0, 0, 1, 1, 0, 0]])
    """
    # The last token of a row, behind which there is padding or nothing, is its [SEP].
    token_follows = tf.pad(padding_mask[:, 1:], [[0, 0], [0, 1]])
    passage = tf.where(segment_ids == 1, padding_mask * token_follows, 0)
    return tf.concat([tf.ones_like(passage[:, :1]), passage[:, 1:]], axis=1) > 0
