"""Windows over long contexts, in graph; `albert_keras.tasks.squad.windows` for serving."""

from typing import NamedTuple

import tensorflow as tf

from albert_keras.text.packing import Rows, assemble_rows, first_pieces


class ServedWindows(NamedTuple):
    """Rows `[CLS] question [SEP] part of the context [SEP]`, R of B questions, in order.

    Attributes:
        rows: see `Rows`.
        questions: int32 `(R,)`, which question each row is of.
        first_pieces: int32 `(R,)`, the row's first piece among those of all contexts.
        lengths: int32 `(R,)`, its pieces of the context.
    """

    rows: Rows
    questions: tf.Tensor
    first_pieces: tf.Tensor
    lengths: tf.Tensor


def cut_windows(
    question_ids: tf.RaggedTensor,
    context_ids: tf.RaggedTensor,
    *,
    max_length: int,
    doc_stride: int,
    cls_id: int,
    sep_id: int,
) -> ServedWindows:
    """As `encode_windows` cuts them.

    Args:
        question_ids: int32 ragged `(B, None)`, of few enough pieces that a context finds room.
        context_ids: int32 ragged `(B, None)`.
        max_length, doc_stride: as of `encode_windows`.
        cls_id, sep_id: of the tokenizer.
    """
    sizes = tf.cast(context_ids.row_lengths(), tf.int32)
    room = max_length - 3 - tf.cast(question_ids.row_lengths(), tf.int32)
    stride = tf.minimum(doc_stride, room)
    counts = 1 + tf.maximum(0, -((room - sizes) // stride))  # divided upwards
    questions = tf.repeat(tf.range(tf.size(counts)), counts)
    number = tf.ragged.range(counts).values
    begin = number * tf.gather(stride, questions)
    lengths = tf.minimum(tf.gather(room, questions), tf.gather(sizes, questions) - begin)
    first = tf.gather(tf.cast(context_ids.row_starts(), tf.int32), questions) + begin
    parts = tf.gather(context_ids.values, tf.ragged.range(first, first + lengths))
    rows = assemble_rows(tf.gather(question_ids, questions), parts, cls_id=cls_id, sep_id=sep_id)
    return ServedWindows(rows, questions, first, lengths)


def context_places(windows: ServedWindows, width: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Which positions hold a piece of the context, and which: bool and int32 `(R, width)`, the
    latter among the pieces of all contexts."""
    places = tf.range(width)[tf.newaxis] - windows.rows.second_starts[:, tf.newaxis]
    inside = (places >= 0) & (places < windows.lengths[:, tf.newaxis])
    return inside, tf.where(inside, windows.first_pieces[:, tf.newaxis] + places, 0)


def has_max_context(
    windows: ServedWindows, pieces: tf.Tensor, max_length: int, doc_stride: int
) -> tf.Tensor:
    """bool `(R, S)`: whether the row is the one in which a piece has most context around it.

    Args:
        windows: of `cut_windows`.
        pieces: int32 `(R, S)`, of `context_places`.
        max_length, doc_stride: as of `cut_windows`.
    """
    total = tf.shape(pieces)[0]
    row = tf.range(total)

    def score(distance):
        """Of the row so far behind the own one, -inf if it does not hold the piece."""
        other = tf.clip_by_value(row + distance, 0, tf.maximum(total - 1, 0))
        same = tf.equal(other, row + distance)
        same &= tf.equal(tf.gather(windows.questions, other), windows.questions)
        length = tf.gather(windows.lengths, other)[:, tf.newaxis]
        left = pieces - tf.gather(windows.first_pieces, other)[:, tf.newaxis]
        least = tf.minimum(left, length - 1 - left)
        # In double precision, as the original: so equal scores are equal there too.
        value = tf.cast(least, tf.float64) + 0.01 * tf.cast(length, tf.float64)
        holds = same[:, tf.newaxis] & (least >= 0)
        return tf.where(holds, value, tf.constant(float("-inf"), tf.float64))

    own = score(0)
    best = tf.ones_like(pieces, tf.bool)
    # Rows begin doc_stride apart, or where the one before ends.
    for distance in range(1, -(-(max_length - 3) // doc_stride) + 1):
        best &= (score(-distance) < own) & (score(distance) <= own)
    return best


def first_of(ids: tf.RaggedTensor, most: int) -> tf.RaggedTensor:
    """The first pieces of each row, `most` of them."""
    return first_pieces(ids, tf.minimum(tf.cast(ids.row_lengths(), tf.int32), most))
