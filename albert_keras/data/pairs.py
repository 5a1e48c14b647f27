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

# Of next-sentence prediction: so many other rows are tried for one of another document, and so many
# tokens at most are cut from the end of B.
_CANDIDATES = 4
_CUT = 16


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
    0. With "nsp" (BERT's next-sentence prediction) B follows A in half of the rows; in the others
    it is a part of another row of the batch, from a sentence of another document on, and just as
    long. The last 1 to 16 tokens of B are cut in both, so nothing but the words tells them apart:
    neither a length nor where B ends. A row for which no such part is found keeps its own B and
    has a weight of 0, whatever was drawn for it.

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
        length_b, other = _random_b(chunks, end - middle, seed)
        has_example = is_pair & other.found
        random = has_example & drawn
        segments = _Segments(
            start_a=start,
            length_a=middle - start,
            row_b=tf.where(random, other.row, own_row),
            start_b=tf.where(random, other.start, middle),
            length_b=length_b,
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


class _Other(NamedTuple):
    """A part of another document for each row, [B] each: `row` of the batch, `start` in its chunk,
    and whether one was found."""

    row: tf.Tensor
    start: tf.Tensor
    found: tf.Tensor


def _random_b(chunks, length_b, seed):
    """The length of B once its end is cut, [B], and a part of another document that is as long."""
    batch = tf.shape(length_b)[0]
    draws = tf.random.stateless_uniform(
        [_CANDIDATES + 2, batch],
        # Another stream than that of the window and the boundary.
        tf.random.experimental.stateless_fold_in(seed, 1, alg="philox"),
        minval=None,
        maxval=None,
        dtype=tf.uint32,
        alg="philox",
    )
    length_b -= tf.clip_by_value(1 + _below(draws[-1], _CUT), 0, tf.maximum(length_b - 1, 0))

    ahead = 1 + _below(draws[:_CANDIDATES], tf.maximum(batch - 1, 1))
    rows = (tf.range(batch) + ahead) % batch  # [candidates, B]
    document = chunks.units[:, : KEY_BYTES // chunks.units.dtype.size]
    is_other = tf.reduce_any(tf.gather(document, rows) != document, axis=-1)
    # From its second sentence on, as B is never the first of its own chunk either.
    starts, sentences = chunks.sentence_starts[:, 1:], chunks.num_sentences[:, None]
    real = tf.range(1, starts.shape[1] + 1) < sentences  # [B, K - 1]
    tokens_from = tf.where(real, chunks.num_tokens[:, None] - starts, 0)
    places = tf.reduce_sum(
        tf.cast(tf.gather(tokens_from, rows) >= length_b[:, None], tf.int32), axis=-1
    )
    suits = is_other & (places > 0)  # [candidates, B]
    first = tf.argmax(tf.cast(suits, tf.int32), axis=0, output_type=tf.int32)[:, None]
    row = _pick(tf.transpose(rows), first[:, 0])
    place = _below(draws[-2], tf.maximum(_pick(tf.transpose(places), first[:, 0]), 1))
    start = _pick(tf.gather(starts, row), place)
    return length_b, _Other(row, start, tf.reduce_any(suits, axis=0))


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
