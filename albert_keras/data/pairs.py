"""Chunks -> segment pairs, in graph: the window, the boundary between A and B, what is B."""

from typing import NamedTuple

import tensorflow as tf

from albert_keras.data.chunks import KEY_BYTES, SPECIAL_TOKENS, ChunkBatch
from albert_keras.layers.sop_head import (
    NSP_NEXT,
    NSP_RANDOM,
    PAIR_OBJECTIVES,
    SOP_IN_ORDER,
    SOP_SWAPPED,
)

_CUT = 16  # tokens that are cut from the end of B at most, in next-sentence prediction


def segment_pairs(
    chunks: ChunkBatch,
    seed,
    *,
    sequence_length: int,
    cls_id: int,
    sep_id: int,
    pad_id: int = 0,
    objective: str = "sop",
) -> dict[str, tf.Tensor]:
    """Makes `[CLS] A [SEP] B [SEP]` of each chunk, drawn anew for each seed.

    A chunk that fits in S - 3 tokens is taken whole; of a longer one a window of whole sentences
    is taken, from a random sentence on and up to the last one that fits. A random boundary between
    two sentences splits the window into A and B, and in half of the rows the two are swapped.

    Where fewer than two whole sentences fit (a chunk of one sentence; one that fills the window
    alone) the row is `[CLS] A [SEP]`, A at most S - 3 tokens from a random place in that sentence,
    and its SOP weight is 0. So no pair is cut inside a sentence: a cut edge would tell a model
    which segment came last.

        chunk      t0 t1 | t2 t3 t4        (two sentences)
        in order   [CLS] t0 t1 [SEP] t2 t3 t4 [SEP]    segment_ids 0 0 0 0 1 1 1 1
        swapped    [CLS] t2 t3 t4 [SEP] t0 t1 [SEP]    segment_ids 0 0 0 0 0 1 1 1

    The other objectives take the same windows. With "none" every row is in order, with a weight of
    0. With "nsp" (BERT's next-sentence prediction) B follows A in half of the rows, and in the
    others it is that of another row, of another document. The rows of a batch are taken two by two
    by the length of what follows A. In both rows of a couple B is as long as the shorter of the
    two, but for its last 1 to 16 tokens, whatever is drawn then: the row's own B or the other
    row's. So the labels have the same Bs and the same lengths, and only how A and B go together
    tells them. A row whose couple is of one document keeps its own B and has a weight of 0.

    Args:
        chunks: a decoded batch of B chunks.
        seed: integers [2].
        sequence_length: S, at least 5.
        cls_id: id of `[CLS]`.
        sep_id: id of `[SEP]`.
        pad_id: id of padding, default 0.
        objective: "sop", "nsp" or "none". Default "sop".

    Returns:
        `token_ids`, `segment_ids`, `padding_mask` (1 for tokens) int32 [B, S]; `sop_labels` int32
        [B], SOP_IN_ORDER or SOP_SWAPPED, for "nsp" NSP_NEXT or NSP_RANDOM; `sop_weights` float32
        [B].

    Raises:
        ValueError: `sequence_length` below 5, or an unknown objective.

    Example:
        >>> batch = decode_chunks(serialized, records.layout, records.max_sentences)
        >>> segment_pairs(batch, [7, 0], sequence_length=128, cls_id=2, sep_id=3)["token_ids"]

    Reference: ALBERT, arXiv 1909.11942, section 3.1 (inter-sentence coherence loss) and 4.6; BERT,
    arXiv 1810.04805, section 3.1 (next-sentence prediction).
    """
    if objective not in PAIR_OBJECTIVES:
        raise ValueError(
            f"`objective` must be one of {', '.join(PAIR_OBJECTIVES)}. Received: {objective!r}."
        )
    if sequence_length < SPECIAL_TOKENS + 2:
        raise ValueError(
            f"`sequence_length` must be at least {SPECIAL_TOKENS + 2}, [CLS] A [SEP] B [SEP]. "
            f"Received: {sequence_length}."
        )
    batch = tf.shape(chunks.num_tokens)[0]
    window_draw, boundary_draw, swap_draw = tf.unstack(
        # Full-range integers, as everywhere: float draws differ between graph and XLA.
        tf.random.stateless_uniform(
            [3, batch], seed, minval=None, maxval=None, dtype=tf.uint32, alg="philox"
        )
    )
    start, middle, end, is_pair = _window(
        chunks, sequence_length - SPECIAL_TOKENS, window_draw, boundary_draw
    )
    drawn = swap_draw % 2 == 1
    own_row = tf.range(batch)
    if objective == "nsp":
        other, has_example = _couples(chunks, end - middle, is_pair)
        random = has_example & drawn
        row_b = tf.where(random, other, own_row)
        shorter = tf.minimum(end - middle, tf.gather(end - middle, other))
        longest = tf.where(has_example, shorter, end - middle)
        segments = _Segments(
            start_a=start,
            length_a=middle - start,
            row_b=row_b,
            start_b=tf.gather(middle, row_b),
            length_b=tf.maximum(longest - 1 - _cuts(batch, seed), tf.minimum(longest, 1)),
            is_pair=is_pair,
        )
        labels = tf.where(random, NSP_RANDOM, NSP_NEXT)
    else:
        has_example = is_pair & (objective == "sop")
        swapped = has_example & drawn
        # Tokens [start, middle) and [middle, end) of the chunk, in the order in which they stand.
        length_a = tf.where(swapped, end - middle, middle - start)
        segments = _Segments(
            start_a=tf.where(swapped, middle, start),
            length_a=length_a,
            row_b=own_row,
            start_b=tf.where(swapped, start, middle),
            length_b=end - start - length_a,
            is_pair=is_pair,
        )
        labels = tf.where(swapped, SOP_SWAPPED, SOP_IN_ORDER)
    return {
        **_rows(chunks, segments, sequence_length, cls_id, sep_id, pad_id),
        "sop_labels": labels,
        "sop_weights": tf.cast(has_example, tf.float32),
    }


class _Segments(NamedTuple):
    """Where A and B lie, [B] each: A in the row's own chunk, B in that of `row_b`.

    Without a pair B is empty and has no `[SEP]`.
    """

    start_a: tf.Tensor
    length_a: tf.Tensor
    row_b: tf.Tensor
    start_b: tf.Tensor
    length_b: tf.Tensor
    is_pair: tf.Tensor


def _couples(chunks, lengths, is_pair):
    """The row that each row is taken with, [B], and whether the two are pairs of two documents."""
    batch = tf.shape(lengths)[0]
    ranked = tf.argsort(tf.where(is_pair, lengths, lengths.dtype.max), stable=True)
    neighbour = tf.minimum(tf.bitwise.bitwise_xor(tf.range(batch), 1), batch - 1)
    other = tf.scatter_nd(ranked[:, None], tf.gather(ranked, neighbour), [batch])
    document = chunks.units[:, : KEY_BYTES // chunks.units.dtype.size]
    is_other = tf.reduce_any(tf.gather(document, other) != document, axis=-1)
    return other, is_pair & tf.gather(is_pair, other) & is_other


def _cuts(batch, seed):
    draws = tf.random.stateless_uniform(
        [batch],
        # Another stream than that of the window and the boundary.
        tf.random.experimental.stateless_fold_in(seed, 1, alg="philox"),
        minval=None,
        maxval=None,
        dtype=tf.uint32,
        alg="philox",
    )
    return _below(draws, _CUT)


def _window(chunks, capacity, window_draw, boundary_draw):
    """Draws (start, middle, end, is_pair), [B] each: token offsets in the chunk."""
    tokens, sentences = chunks.num_tokens, chunks.num_sentences
    column = tf.range(chunks.sentence_starts.shape[1])
    real = column < sentences[:, None]  # [B, K]
    starts = tf.where(real, chunks.sentence_starts, tokens[:, None])
    ends = tf.concat([starts[:, 1:], tokens[:, None]], axis=1)

    # A window may start at each sentence that has more than a window's tokens from it on, and at
    # the next one, from which the rest fits: so every token is in some window.
    longer = _count(real & (tokens[:, None] - starts > capacity))
    first = _below(window_draw, tf.minimum(longer, tf.maximum(sentences - 1, 0)) + 1)
    start = _pick(starts, first)
    after_last = _count(real & (ends <= (start + capacity)[:, None]))
    is_pair = after_last - first >= 2
    boundary = first + 1 + _below(boundary_draw, tf.maximum(after_last - first - 1, 1))
    middle = _pick(starts, tf.minimum(boundary, column.shape[0] - 1))
    end = _pick(ends, tf.maximum(after_last - 1, 0))

    # No two sentences fit: a full window from a random token of the first one.
    sentence_length = tf.maximum(_pick(ends, first) - start, 1)
    cut_start = tf.minimum(start + _below(boundary_draw, sentence_length), tokens - capacity)
    cut_start = tf.maximum(cut_start, 0)
    cut_end = tf.minimum(cut_start + capacity, tokens)
    return (
        tf.where(is_pair, start, cut_start),
        tf.where(is_pair, middle, cut_end),
        tf.where(is_pair, end, cut_end),
        is_pair,
    )


def _rows(chunks, segments, length, cls_id, sep_id, pad_id):
    """Lays the segments out: the ids of a row come with one gather from the records themselves."""
    start_a, length_a, row_b, start_b, length_b, is_pair = (part[:, None] for part in segments)
    position = tf.range(length)
    first_sep = length_a + 1
    in_a = position <= first_sep
    used = first_sep + 1 + tf.where(is_pair, length_b + 1, 0)
    token = position + tf.where(in_a, start_a - 1, start_b - length_a - 2)  # [B, S], in the chunk
    row = tf.where(in_a, tf.range(tf.shape(token)[0])[:, None], row_b)
    width = chunks.units.shape[1]
    unit = tf.clip_by_value(token + tf.gather(chunks.first_token, row), 0, width - 1)
    ids = tf.cast(tf.gather(tf.reshape(chunks.units, [-1]), row * width + unit), tf.int32)
    ids = tf.where(position == 0, cls_id, ids)
    ids = tf.where((position == first_sep) | (position == used - 1), sep_id, ids)
    is_used = position < used
    return {
        "token_ids": tf.where(is_used, ids, pad_id),
        "segment_ids": tf.cast(is_used & ~in_a, tf.int32),
        "padding_mask": tf.cast(is_used, tf.int32),
    }


def _below(draw, bound):
    """Int32 in [0, bound), from a full-range draw; the bias of the remainder is below 2**-16."""
    return tf.cast(draw % tf.cast(bound, tf.uint32), tf.int32)


def _count(condition):
    return tf.reduce_sum(tf.cast(condition, tf.int32), axis=1)


def _pick(columns, index):
    return tf.gather(columns, index, batch_dims=1)
