"""Ragged piece ids become the rows that a model takes."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from small_tokenizer import small_tokenizer

from albert_keras.text.packing import pack, pack_texts, truncate_pairs

pytestmark = pytest.mark.both_kerases


def ragged(rows):
    return tf.RaggedTensor.from_row_lengths(
        tf.constant(sum(rows, []), tf.int32), tf.constant([len(row) for row in rows], tf.int64)
    )


def packed(rows, in_graph=False, second=None, **settings):
    run = tf.function(pack) if in_graph else pack
    second = None if second is None else ragged(second)
    outputs = run(ragged(rows), second, cls_id=2, sep_id=3, **settings)
    return {name: value.numpy() for name, value in outputs.items()}


@pytest.mark.parametrize("in_graph", [False, True])
def test_rows_open_with_cls_close_with_sep_and_are_padded_to_the_longest(in_graph):
    rows = packed([[7, 8], [], [9]], in_graph, max_length=64, multiple=2)
    np.testing.assert_array_equal(rows["token_ids"], [[2, 7, 8, 3], [2, 3, 0, 0], [2, 9, 3, 0]])
    np.testing.assert_array_equal(rows["padding_mask"], [[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]])
    assert not rows["segment_ids"].any()
    assert {value.dtype for value in rows.values()} == {np.dtype("int32")}


def test_a_long_row_keeps_its_first_pieces_and_its_sep():
    rows = packed([[7] * 3 + [8] * 50, [9]], max_length=6)
    np.testing.assert_array_equal(rows["token_ids"], [[2, 7, 7, 7, 8, 3], [2, 9, 3, 0, 0, 0]])
    np.testing.assert_array_equal(rows["padding_mask"], [[1] * 6, [1, 1, 1, 0, 0, 0]])


@pytest.mark.parametrize("pieces,width", [(0, 16), (14, 16), (15, 32), (38, 40), (90, 40)])
def test_the_width_is_a_multiple_of_16_or_the_maximum(pieces, width):
    assert packed([[7] * pieces], max_length=40)["token_ids"].shape == (1, width)


@pytest.mark.parametrize("in_graph", [False, True])
def test_a_batch_of_no_rows_is_fine(in_graph):
    assert packed([], in_graph, max_length=40)["token_ids"].shape == (0, 16)


@pytest.mark.parametrize("in_graph", [False, True])
def test_the_second_text_of_a_pair_and_its_sep_are_segment_1(in_graph):
    rows = packed([[7, 8], [9], []], in_graph, [[5], [], [6, 4]], max_length=64, multiple=2)
    np.testing.assert_array_equal(
        rows["token_ids"], [[2, 7, 8, 3, 5, 3], [2, 9, 3, 3, 0, 0], [2, 3, 6, 4, 3, 0]]
    )
    np.testing.assert_array_equal(
        rows["segment_ids"], [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 0, 0], [0, 0, 1, 1, 1, 0]]
    )
    np.testing.assert_array_equal(
        rows["padding_mask"], [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0]]
    )
    assert {value.dtype for value in rows.values()} == {np.dtype("int32")}


@pytest.mark.parametrize("length", range(8))
def test_pairs_are_cut_as_by_popping_from_the_longer_one(length):
    pairs = list(itertools.product(range(10), repeat=2))
    expected = []
    for first, second in (([*range(a)], [*range(b)]) for a, b in pairs):
        while len(first) + len(second) > length:
            (first if len(first) > len(second) else second).pop()
        expected.append((first, second))
    rows = [ragged([[*range(pair[side])] for pair in pairs]) for side in (0, 1)]
    first, second = truncate_pairs(*rows, length)
    assert list(zip(first.to_list(), second.to_list(), strict=True)) == expected


def test_a_long_pair_has_the_maximum_and_both_of_its_seps():
    rows = packed([[7] * 9], second=[[8] * 4], max_length=10)
    np.testing.assert_array_equal(rows["token_ids"], [[2, 7, 7, 7, 7, 3, 8, 8, 8, 3]])


def test_a_multiple_of_the_maximum_makes_the_shape_static():
    traced = tf.function(lambda ids: pack(ids, cls_id=2, sep_id=3, max_length=9, multiple=9))
    outputs = traced.get_concrete_function(tf.RaggedTensorSpec([4, None], tf.int32))
    assert {spec.shape[1] for spec in outputs.structured_outputs.values()} == {9}
    assert packed([[7]], max_length=9, multiple=9)["token_ids"].shape == (1, 9)


def test_raw_pairs_in_a_dataset_are_the_pieces_of_both_texts():
    tokenizer = small_tokenizer()
    texts, seconds = ["a license", "the work", ""], ["of the work", "", "it is " * 90]
    batches = tf.data.Dataset.from_tensors((texts, seconds)).map(
        lambda first, second: pack_texts(first, tokenizer, 40, second)
    )
    rows = next(batches.as_numpy_iterator())
    for row, first, second in zip(range(3), texts, seconds, strict=True):
        kept = tokenizer.encode(second)[: 37 - len(tokenizer.encode(first))]
        first_ids = [tokenizer.cls_id, *tokenizer.encode(first), tokenizer.sep_id]
        expected = [*first_ids, *kept, tokenizer.sep_id]
        length = rows["padding_mask"][row].sum()
        assert rows["token_ids"][row, :length].tolist() == expected
        assert rows["segment_ids"][row].sum() == len(kept) + 1
        assert not rows["segment_ids"][row, : len(first_ids)].any()


def test_a_very_long_text_costs_no_more_than_its_first_bytes():
    tokenizer = small_tokenizer()
    # Spaces are no pieces: with all of them before it, the word is beyond the limit.
    texts = [" " * (128 * 8 - 1) + "it", " " * (128 * 8 - 2) + "it"]
    for pair in (False, True):
        rows = pack_texts(tf.constant(texts), tokenizer, 8, tf.constant(texts) if pair else None)
        lengths = rows["padding_mask"].numpy().sum(axis=1)
        whole = len(tokenizer.encode("it")) * (1 + pair) + 2 + pair
        part = len(tokenizer.encode("i")) * (1 + pair) + 2 + pair
        assert lengths.tolist() == [min(part, 8), min(whole, 8)]
        first = rows["token_ids"].numpy()[:, 1 : 1 + len(tokenizer.encode("i"))]
        assert first[0].tolist() == tokenizer.encode("i")
