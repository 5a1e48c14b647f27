"""Ragged piece ids become the rows that a model takes."""

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.text.packing import pack

pytestmark = pytest.mark.both_kerases


def packed(rows, in_graph=False, **settings):
    ids = tf.RaggedTensor.from_row_lengths(
        tf.constant(sum(rows, []), tf.int32), tf.constant([len(row) for row in rows], tf.int64)
    )
    run = tf.function(pack) if in_graph else pack
    outputs = run(ids, cls_id=2, sep_id=3, **settings)
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
