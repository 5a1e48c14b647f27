"""Segment pairs: windows of whole sentences, boundaries, swaps, and what stands where."""

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.data.chunks import Chunk, ChunkFormat, decode_chunks, encode_chunks
from albert_keras.data.pairs import segment_pairs
from albert_keras.layers.sop_head import SOP_IN_ORDER, SOP_SWAPPED

CLS, SEP, PAD = 2, 3, 0
LAYOUT = ChunkFormat(length=103)
MAX_SENTENCES = 30


def batch_of(*chunks_of_lengths, repeat=1):
    """Chunks given by the lengths of their sentences; token i of every chunk has the id 10 + i."""
    records = []
    for lengths in chunks_of_lengths:
        bounds = np.concatenate([[0], np.cumsum(lengths, dtype=int)])
        ids = np.arange(10, 10 + bounds[-1], dtype=LAYOUT.dtype).tobytes()
        chunk = Chunk(0, int(bounds[-1]), bounds[:-1].tolist())
        records += encode_chunks(ids, [chunk], 0, LAYOUT) * repeat
    return decode_chunks(tf.constant(records), LAYOUT, MAX_SENTENCES)


def pairs(batch, length, seed=(0, 0)):
    result = segment_pairs(batch, seed, sequence_length=length, cls_id=CLS, sep_id=SEP, pad_id=PAD)
    return {name: value.numpy() for name, value in result.items()}


def segments(row_ids, segment_ids, padding_mask):
    """Token numbers of A and of B (None without a second [SEP]), and checks the layout."""
    used = int(padding_mask.sum())
    assert padding_mask.tolist() == [1] * used + [0] * (len(row_ids) - used)
    assert not row_ids[used:].any() and not segment_ids[used:].any()
    assert row_ids[0] == CLS and row_ids[used - 1] == SEP
    seps = np.flatnonzero(row_ids == SEP)
    a = row_ids[1 : seps[0]] - 10
    b = row_ids[seps[0] + 1 : used - 1] - 10 if len(seps) == 2 else None
    assert len(seps) <= 2
    assert segment_ids[:used].tolist() == [0] * (seps[0] + 1) + [1] * (used - seps[0] - 1)
    return a, b


def test_both_orders_of_the_documented_example():
    result = pairs(batch_of([2, 3], repeat=40), 10)
    rows = {
        int(label): (ids.tolist(), types.tolist())
        for label, ids, types in zip(
            result["sop_labels"], result["token_ids"], result["segment_ids"], strict=True
        )
    }
    assert rows == {
        SOP_IN_ORDER: (
            [CLS, 10, 11, SEP, 12, 13, 14, SEP, PAD, PAD],
            [0, 0, 0, 0, 1, 1, 1, 1, 0, 0],
        ),
        SOP_SWAPPED: (
            [CLS, 12, 13, 14, SEP, 10, 11, SEP, PAD, PAD],
            [0, 0, 0, 0, 0, 1, 1, 1, 0, 0],
        ),
    }
    assert (SOP_IN_ORDER, SOP_SWAPPED) == (1, 0)


@pytest.mark.parametrize("length", [5, 12, 30, 103, 128])
def test_every_row_is_a_window_of_its_chunk(length):
    rng = np.random.default_rng(length)
    chunks = []
    for _ in range(400):
        lengths = rng.integers(1, rng.choice([4, 15, 60]), rng.integers(1, MAX_SENTENCES))
        kept = np.cumsum(lengths) <= LAYOUT.max_tokens
        chunks.append(lengths[kept] if kept.any() else [int(lengths[0])])
    result = pairs(batch_of(*chunks), length, (length, 1))
    for row, lengths in enumerate(chunks):
        bounds = {0, *np.cumsum(lengths).tolist()}
        a, b = segments(
            *(result[name][row] for name in ("token_ids", "segment_ids", "padding_mask"))
        )
        weight, label = result["sop_weights"][row], result["sop_labels"][row]
        assert weight == (b is not None)
        if b is None:
            assert label == SOP_IN_ORDER
            taken = a
            # One segment: the whole chunk, or as much as there is room for.
            assert len(a) == min(sum(lengths), length - 3)
        else:
            first, second = (a, b) if label == SOP_IN_ORDER else (b, a)
            assert len(first) and len(second) and len(a) + len(b) <= length - 3
            taken = np.concatenate([first, second])
            assert {taken[0], second[0], taken[-1] + 1} <= bounds
            following = min((end for end in bounds if end > taken[-1] + 1), default=None)
            assert following is None or following - taken[0] > length - 3
        np.testing.assert_array_equal(np.diff(taken), 1)
        assert 0 <= taken[0] and taken[-1] < sum(lengths)


def test_a_chunk_that_fits_is_taken_whole():
    result = pairs(batch_of([40, 30, 30], repeat=20), 103)
    assert (result["padding_mask"].sum(axis=1) == 103).all()
    assert result["sop_weights"].all()


def test_a_chunk_of_one_sentence_has_one_segment_and_no_sop_weight():
    result = pairs(batch_of([4]), 10)
    assert result["token_ids"].tolist() == [[CLS, 10, 11, 12, 13, SEP, PAD, PAD, PAD, PAD]]
    assert result["segment_ids"].sum() == 0
    assert result["sop_weights"].tolist() == [0]


def test_an_empty_record_gives_a_row_without_weight():
    result = pairs(decode_chunks(tf.constant([b""]), LAYOUT, MAX_SENTENCES), 6)
    assert result["token_ids"].tolist() == [[CLS, SEP, PAD, PAD, PAD, PAD]]
    assert result["sop_weights"].tolist() == [0]


@pytest.mark.parametrize("lengths", [[7] * 14, [3, 60, 5, 5, 20], [90], [2, 95], [95, 2], [30] * 3])
def test_every_token_of_a_chunk_is_in_some_window(lengths):
    result = pairs(batch_of(lengths, repeat=3000), 23)
    seen = set(result["token_ids"].ravel().tolist()) - {CLS, SEP, PAD}
    assert seen == set(range(10, 10 + sum(lengths)))


def test_the_boundary_is_uniform_over_the_sentences_and_half_the_rows_are_swapped():
    draws = 6000
    result = pairs(batch_of([1, 2, 3, 4, 5], repeat=draws), 30, (3, 9))
    swapped = result["sop_labels"] == SOP_SWAPPED
    assert abs(swapped.mean() - 0.5) < 4 * 0.5 / draws**0.5
    length_a = np.argmax(result["token_ids"] == SEP, axis=1) - 1
    first = np.where(swapped, 15 - length_a, length_a)
    values, counts = np.unique(first, return_counts=True)
    assert values.tolist() == [1, 3, 6, 10]
    expected = draws / 4
    assert ((counts - expected) ** 2 / expected).sum() < 16.27  # 99.9 % of chi-square, 3 degrees
    # The swap does not depend on where the boundary is.
    for value in values:
        share = swapped[first == value].mean()
        assert abs(share - 0.5) < 4 * 0.5 / (draws / 4) ** 0.5


def test_a_window_starts_at_each_sentence_from_which_it_can_be_full():
    draws = 4000
    result = pairs(batch_of([10] * 6, repeat=draws), 33, (4, 4))  # windows of three sentences
    tokens = np.where(result["token_ids"] >= 10, result["token_ids"], 999)
    starts, counts = np.unique(tokens.min(axis=1) - 10, return_counts=True)
    assert starts.tolist() == [0, 10, 20, 30]
    expected = draws / 4
    assert ((counts - expected) ** 2 / expected).sum() < 16.27  # 99.9 % of chi-square, 3 degrees


def test_eager_graph_and_xla_agree_and_seeds_differ():
    batch = batch_of([7, 8, 9, 30], [4], [50, 3, 3], repeat=5)

    def make(batch, seed):
        return segment_pairs(batch, seed, sequence_length=32, cls_id=CLS, sep_id=SEP)

    seed = tf.constant([2**40, 3], tf.int64)
    eager = make(batch, seed)
    for compiled in (tf.function(make), tf.function(make, jit_compile=True)):
        other = compiled(batch, seed)
        for name, value in eager.items():
            np.testing.assert_array_equal(value, other[name], err_msg=name)
            assert value.dtype == (tf.float32 if name == "sop_weights" else tf.int32)
    assert (make(batch, [1, 1])["token_ids"] != eager["token_ids"]).numpy().any()


def test_a_sequence_without_room_for_a_pair_is_refused():
    with pytest.raises(ValueError, match="at least 5.*Received: 4"):
        pairs(batch_of([2, 3]), 4)
