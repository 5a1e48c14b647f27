"""pack: ragged piece ids to the rectangular rows that a model takes, in graph."""

import tensorflow as tf

# A string of 50 MB would take 5 GB to tokenise for the 510 pieces that are used. Longer than this a
# piece is only where thousands of spaces or unknown characters in a row make one.
BYTES_PER_PIECE = 128


def pack_texts(texts: tf.Tensor, tokenizer, max_length: int) -> dict[str, tf.Tensor]:
    """Raw strings to the model's inputs, in graph: for training, evaluation and serving alike.

    Args:
        texts: string `(B,)`, each cut to `BYTES_PER_PIECE` times `max_length` bytes first.
        tokenizer: a `Tokenizer`.
        max_length: int > 2, the longest row, special pieces included.

    Returns:
        What `pack` gives.
    """
    texts = tf.strings.substr(texts, 0, BYTES_PER_PIECE * max_length)
    return pack(
        tokenizer(texts), cls_id=tokenizer.cls_id, sep_id=tokenizer.sep_id, max_length=max_length
    )


def pack(
    ids: tf.RaggedTensor, *, cls_id: int, sep_id: int, max_length: int, multiple: int = 16
) -> dict[str, tf.Tensor]:
    """`[CLS]` pieces `[SEP]` as rows, cut to `max_length` and padded to the batch's longest.

    The width is rounded up, so that a server meets few different shapes: each costs it memory and
    the time of a first run. A batch of no rows has the smallest width.

        ids [[7, 8], [9]], cls_id 2, sep_id 3, multiple 2

        token_ids      2 7 8 3    padding_mask   1 1 1 1    segment_ids   0 0 0 0
                       2 9 3 0                   1 1 1 0                  0 0 0 0

    Args:
        ids: int32 `(B, None)`, pieces without special ones.
        cls_id: opens a row.
        sep_id: closes it.
        max_length: int > 2, the longest row, special pieces included.
        multiple: int > 0, the width is a multiple of this, or `max_length`. Default 16.

    Returns:
        Dict of token_ids, segment_ids (all 0) and padding_mask, int32 `(B, S)`.

    Example:

    >>> pack(tf.ragged.constant([[7, 8], [9]]), cls_id=2, sep_id=3, max_length=8)["token_ids"].shape
    TensorShape([2, 8])
    """
    lengths = tf.minimum(tf.cast(ids.row_lengths(), tf.int32), max_length - 2)
    # The largest of no numbers is the smallest int32.
    longest = tf.maximum(tf.reduce_max(lengths), 0) + 2
    width = tf.minimum(-(-longest // multiple) * multiple, max_length)
    pieces = ids.to_tensor(0, shape=tf.stack([-1, width - 1]))  # B, S - 1
    pieces.set_shape([None, None])
    rows = tf.pad(pieces, [[0, 0], [1, 0]], constant_values=cls_id)  # B, S
    end = lengths[:, tf.newaxis] + 1
    positions = tf.range(width)[tf.newaxis]
    rows = tf.where(positions == end, sep_id, rows)
    return {
        "token_ids": rows,
        "segment_ids": tf.zeros_like(rows),
        "padding_mask": tf.cast(positions <= end, tf.int32),
    }
