"""pack: texts, or pairs of them, to the rectangular rows that a model takes, in graph."""

from typing import NamedTuple

import tensorflow as tf

# A string of 50 MB would take 5 GB to tokenise for the 510 pieces that are used. Longer than this a
# piece is only where thousands of spaces or unknown characters in a row make one.
BYTES_PER_PIECE = 128


class Rows(NamedTuple):
    """Rows with their special pieces, before they are padded.

    Attributes:
        token_ids: int32 ragged `(B, None)`.
        second_starts: int32 `(B,)`, the position at which segment 1 begins; the row's length where
            there is none.
    """

    token_ids: tf.RaggedTensor
    second_starts: tf.Tensor


def pack_texts(
    texts: tf.Tensor, tokenizer, max_length: int, second_texts: tf.Tensor | None = None
) -> dict[str, tf.Tensor]:
    """Raw strings to the model's inputs, in graph: for training, evaluation and serving alike.

    Args:
        texts: string `(B,)`, each cut to `BYTES_PER_PIECE` times `max_length` bytes first.
        tokenizer: a `Tokenizer`.
        max_length: int > 2, the longest row, special pieces included; of pairs > 3.
        second_texts: string `(B,)`, the second texts of pairs, cut in the same way. Default None:
            there are no pairs.

    Returns:
        What `pad_rows` gives.
    """
    return pad_rows(text_rows(texts, tokenizer, max_length, second_texts), max_length)


def text_rows(
    texts: tf.Tensor, tokenizer, max_length: int, second_texts: tf.Tensor | None = None
) -> Rows:
    """The rows of `pack_texts`, with the same arguments, before they are padded."""
    first, second = (
        None
        if some is None
        else tokenizer(tf.strings.substr(some, 0, BYTES_PER_PIECE * max_length))
        for some in (texts, second_texts)
    )
    return _truncated_rows(first, second, tokenizer.cls_id, tokenizer.sep_id, max_length)


def pack(
    ids: tf.RaggedTensor,
    second_ids: tf.RaggedTensor | None = None,
    *,
    cls_id: int,
    sep_id: int,
    max_length: int,
    multiple: int = 16,
) -> dict[str, tf.Tensor]:
    """Pieces to the model's inputs: special pieces added, cut to `max_length`, padded.

    A row is `[CLS]` ids `[SEP]`, or of a pair `[CLS]` ids `[SEP]` second_ids `[SEP]`, in which the
    second ids and the last `[SEP]` are segment 1. A long row loses its last pieces, a long pair as
    `truncate_pairs` says.

        ids [[7, 8], [9]], cls_id 2, sep_id 3, multiple 2

        token_ids      2 7 8 3    padding_mask   1 1 1 1    segment_ids   0 0 0 0
                       2 9 3 0                   1 1 1 0                  0 0 0 0

        with second_ids [[5], [6, 4]]

        token_ids      2 7 8 3 5 3    padding_mask   1 1 1 1 1 1    segment_ids   0 0 0 0 1 1
                       2 9 3 6 4 3                   1 1 1 1 1 1                  0 0 0 1 1 1

    Args:
        ids: int32 `(B, None)`, pieces without special ones.
        second_ids: int32 `(B, None)`. Default None: there are no pairs.
        cls_id: opens a row.
        sep_id: closes a segment.
        max_length: int > 2, the longest row, special pieces included; of pairs > 3.
        multiple: as of `pad_rows`. Default 16.

    Returns:
        What `pad_rows` gives.

    Example:

    >>> pack(tf.ragged.constant([[7, 8], [9]]), cls_id=2, sep_id=3, max_length=8)["token_ids"].shape
    TensorShape([2, 8])
    """
    rows = _truncated_rows(ids, second_ids, cls_id, sep_id, max_length)
    return pad_rows(rows, max_length, multiple)


def assemble_rows(
    first: tf.RaggedTensor, second: tf.RaggedTensor | None, *, cls_id: int, sep_id: int
) -> Rows:
    """`[CLS]` first `[SEP]`, or with `second` `[CLS]` first `[SEP]` second `[SEP]`; nothing is cut.

    Args:
        first, second: int32 ragged `(B, None)`, pieces without special ones.
        cls_id: opens a row.
        sep_id: closes a segment.

    Example:

    >>> first, second = tf.ragged.constant([[7, 8], [9]]), tf.ragged.constant([[5], [6, 4]])
    >>> rows = assemble_rows(first, second, cls_id=2, sep_id=3)
    >>> rows.token_ids.to_list(), rows.second_starts.numpy().tolist()
    ([[2, 7, 8, 3, 5, 3], [2, 9, 3, 6, 4, 3]], [4, 3])
    """
    column = [first.nrows(), 1]
    cls, sep = tf.fill(column, cls_id), tf.fill(column, sep_id)
    parts = [cls, first, sep] if second is None else [cls, first, sep, second, sep]
    return Rows(tf.concat(parts, axis=1), tf.cast(first.row_lengths(), tf.int32) + 2)


def truncate_pairs(
    first: tf.RaggedTensor, second: tf.RaggedTensor, length: int
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Cuts pairs to `length` pieces together: the longer one loses its last piece, again and again.

    Of two that are equally long it is the second one.

        length 5: 9 and 2 pieces become 3 and 2; 9 and 9 become 3 and 2

    Args:
        first, second: int32 ragged `(B, None)`.
        length: int >= 0, special pieces not included.

    Reference:
        https://github.com/google-research/albert, `_truncate_seq_pair` of classifier_utils.py
    """
    a, b = (tf.cast(ids.row_lengths(), tf.int32) for ids in (first, second))
    # The longer one gives way until it meets the shorter; from there on they shrink in turn.
    half = length // 2
    return (
        first_pieces(first, tf.minimum(a, tf.maximum(length - b, length - half))),
        first_pieces(second, tf.minimum(b, tf.maximum(length - a, half))),
    )


def first_pieces(ids: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """The first `lengths` int32 `(B,)` pieces of each row, which must have as many."""
    starts = tf.cast(ids.row_starts(), tf.int64)
    return tf.gather(ids.values, tf.ragged.range(starts, starts + tf.cast(lengths, tf.int64)))


def pad_rows(rows: Rows, max_length: int, multiple: int = 16) -> dict[str, tf.Tensor]:
    """Rows to the model's inputs, padded with id 0 to the batch's longest.

    The width is rounded up, so that a model meets few different shapes: each costs it memory and
    the time of a first run. A batch of no rows has the smallest width.

    Args:
        rows: of at most `max_length` pieces each.
        max_length: int > 0, the greatest width.
        multiple: int > 0, the width is a multiple of this, or `max_length`. From `max_length` on
            the width is always that, and static, as a TPU needs it. Default 16.

    Returns:
        Dict of token_ids, segment_ids (0, and 1 in the second segment) and padding_mask (1 where
        there is a piece), int32 `(B, S)`.
    """
    lengths = tf.cast(rows.token_ids.row_lengths(), tf.int32)
    width = max_length
    if multiple < max_length:
        # The largest of no numbers is the smallest int32.
        longest = tf.maximum(tf.reduce_max(lengths), 1)
        width = tf.minimum(-(-longest // multiple) * multiple, max_length)
    token_ids = rows.token_ids.to_tensor(0, shape=tf.stack([-1, width]))
    token_ids.set_shape([None, width if isinstance(width, int) else None])
    positions = tf.range(width)[tf.newaxis]
    padding_mask = positions < lengths[:, tf.newaxis]
    segment_ids = padding_mask & (positions >= rows.second_starts[:, tf.newaxis])
    return {
        "token_ids": token_ids,
        "segment_ids": tf.cast(segment_ids, tf.int32),
        "padding_mask": tf.cast(padding_mask, tf.int32),
    }


def _truncated_rows(first, second, cls_id, sep_id, max_length):
    if second is None:
        lengths = tf.minimum(tf.cast(first.row_lengths(), tf.int32), max_length - 2)
        first = first_pieces(first, lengths)
    else:
        first, second = truncate_pairs(first, second, max_length - 3)
    return assemble_rows(first, second, cls_id=cls_id, sep_id=sep_id)
