"""Pairs of the objectives "nsp" and "none": what B is, and that nothing but words tells it."""

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.data.chunks import Chunk, ChunkFormat, decode_chunks, encode_chunks
from albert_keras.data.pairs import segment_pairs
from albert_keras.layers.sop_head import NSP_NEXT, NSP_RANDOM

CLS, SEP, PAD = 2, 3, 0
LAYOUT = ChunkFormat(length=103)
ROWS, FIRST_ID = 512, 10


def corpus(seed, documents):
    """Records of chunks of random sentences; the ids of row r are from 10 + 100 r on, in order, so
    that every token says where it is from. Returns them with each row's document and sentences."""
    rng = np.random.default_rng(seed)
    records, keys, bounds = [], rng.integers(0, documents, ROWS), []
    for row, key in enumerate(keys):
        lengths = rng.integers(1, 30, rng.integers(2, 12))
        ends = np.concatenate([[0], np.cumsum(lengths)])
        ends = ends[ends <= LAYOUT.max_tokens]
        ids = (FIRST_ID + 100 * row + np.arange(ends[-1])).astype(LAYOUT.dtype)
        chunk = Chunk(0, int(ends[-1]), ends[:-1].tolist())
        records += encode_chunks(ids.tobytes(), [chunk], int(key), LAYOUT)
        bounds.append(ends.tolist())
    return decode_chunks(tf.constant(records), LAYOUT, 30), keys, bounds


def rows_of(batch, seed, objective, length=103):
    result = segment_pairs(
        batch, seed, sequence_length=length, cls_id=CLS, sep_id=SEP, pad_id=PAD, objective=objective
    )
    result = {name: value.numpy() for name, value in result.items()}
    for row in range(ROWS):
        ids = result["token_ids"][row][: result["padding_mask"][row].sum()]
        seps = np.flatnonzero(ids == SEP)
        assert ids[0] == CLS and seps[-1] == len(ids) - 1
        a, b = ids[1 : seps[0]], ids[seps[0] + 1 : -1] if len(seps) == 2 else []
        label, weight = result["sop_labels"][row], result["sop_weights"][row]
        yield row, np.asarray(a) - FIRST_ID, np.asarray(b, int) - FIRST_ID, int(label), weight


def test_b_follows_a_or_is_from_a_sentence_of_another_document():
    batch, keys, bounds = corpus(0, documents=40)
    seen = []
    for row, a, b, label, weight in rows_of(batch, [3, 0], "nsp"):
        assert (a // 100 == row).all() and (np.diff(a) == 1).all()
        assert a[0] % 100 in bounds[row]
        if not len(b):
            assert weight == 0
            continue
        other = b[0] // 100
        assert (b // 100 == other).all() and (np.diff(b) == 1).all()  # in one place, in order
        if weight == 0 or label == NSP_NEXT:
            assert other == row and b[0] == a[-1] + 1 and label == NSP_NEXT
        else:
            assert keys[other] != keys[row] and label == NSP_RANDOM
            assert b[0] % 100 in bounds[other][1:-1]  # begins a sentence, not the first one
        seen.append((label, weight))
    weighted = [label for label, weight in seen if weight]
    assert len(weighted) > 0.6 * ROWS
    assert abs(np.mean(weighted) - 0.5) < 3 * 0.5 / np.sqrt(len(weighted))


def samples(seed, steps, of_row):
    """`of_row(a, b)` of the weighted rows, apart by label; `a` and `b` are places in the corpus."""
    found = {NSP_NEXT: [], NSP_RANDOM: []}
    batch, _, bounds = corpus(seed, documents=40)
    for step in range(steps):
        for _, a, b, label, weight in rows_of(batch, [step, 1], "nsp"):
            if weight:
                found[label].append(of_row(a, b, bounds))
    return np.array(found[NSP_NEXT], float), np.array(found[NSP_RANDOM], float)


def assert_one_distribution(first, second):
    """Two samples' Kolmogorov-Smirnov distance, at p = 1e-4."""
    grid = np.arange(110)
    shares = [np.searchsorted(np.sort(x), grid, "right") / len(x) for x in (first, second)]
    bound = 2.23 * np.sqrt(1 / len(first) + 1 / len(second))
    assert np.abs(shares[0] - shares[1]).max() < bound


def sentence_ends_in(b, bounds):
    """How many sentences end in B, and how many tokens after the last of these it goes on."""
    ends = [end for end in bounds[b[0] // 100] if b[0] % 100 < end <= b[-1] % 100 + 1]
    return len(ends), b[-1] % 100 + 1 - max(ends, default=b[0] % 100)


def test_neither_lengths_nor_weights_tell_the_label():
    nexts, randoms = samples(1, 40, lambda a, b, _: (len(a), len(b), len(a) + len(b)))
    for column in range(3):
        assert_one_distribution(nexts[:, column], randoms[:, column])


def test_where_sentences_end_in_b_does_not_tell_the_label():
    nexts, randoms = samples(7, 40, lambda a, b, bounds: sentence_ends_in(b, bounds))
    for column in range(2):
        assert_one_distribution(nexts[:, column], randoms[:, column])
    assert abs(nexts[:, 0].mean() - randoms[:, 0].mean()) < 0.05


def test_a_batch_of_one_document_has_no_example():
    batch, _, _ = corpus(2, documents=1)
    assert not any(weight for *_, weight in rows_of(batch, [0, 0], "nsp"))


def test_a_single_row_has_no_example():
    chunk = Chunk(0, 6, [0, 3])
    ids = np.arange(10, 16).astype(LAYOUT.dtype).tobytes()
    batch = decode_chunks(tf.constant(encode_chunks(ids, [chunk], 1, LAYOUT)), LAYOUT, 30)
    pair = segment_pairs(batch, [0, 0], sequence_length=10, cls_id=2, sep_id=3, objective="nsp")
    assert pair["sop_weights"].numpy() == [0]
    assert pair["token_ids"].numpy()[0, :6].tolist() == [CLS, 10, 11, 12, SEP, 13]


def test_without_an_objective_rows_are_those_of_sentence_order_unswapped():
    batch, _, _ = corpus(3, documents=40)
    plain = list(rows_of(batch, [5, 5], "none"))
    swapped = list(rows_of(batch, [5, 5], "sop"))
    for (row, a, b, label, weight), (_, c, d, order, _) in zip(plain, swapped, strict=True):
        assert weight == 0 and label == 1
        first, second = (c, d) if order == 1 else (d, c)
        np.testing.assert_array_equal(a, first, err_msg=str(row))
        np.testing.assert_array_equal(b, second)


def test_an_unknown_objective_is_named():
    batch, _, _ = corpus(4, documents=2)
    with pytest.raises(ValueError, match="`objective` must be one of sop, nsp, none.*'mlm'"):
        segment_pairs(batch, [0, 0], sequence_length=10, cls_id=2, sep_id=3, objective="mlm")
