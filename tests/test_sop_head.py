import numpy as np
import pytest
import tensorflow as tf

from albert_keras.layers import SOP_IN_ORDER, SOP_SWAPPED, SOPHead
from tests.layer_contract import fill_weights

pytestmark = pytest.mark.both_kerases


def test_one_is_in_order_and_zero_is_swapped():
    assert (SOP_IN_ORDER, SOP_SWAPPED) == (1, 0)


def test_it_is_one_linear_map():
    layer = SOPHead()
    x = np.random.default_rng(0).normal(size=(3, 8))
    layer(tf.constant(x, tf.float32))
    weights = fill_weights(layer)
    expected = x @ weights["dense/kernel"] + weights["dense/bias"]
    np.testing.assert_allclose(layer(tf.constant(x, tf.float32)), expected, atol=1e-6)


def test_logits_keep_their_digits_under_bfloat16():
    layer = SOPHead(dtype="mixed_bfloat16")
    layer.build((None, 2))
    layer.dense.kernel.assign([[1.001, 1.0], [-1.0, -1.0]])
    # In bfloat16 1.001 is 1.0, and the two columns could not be told apart.
    np.testing.assert_allclose(layer(tf.ones([1, 2])), [[0.001, 0.0]], atol=1e-6)
