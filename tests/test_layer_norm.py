import numpy as np
import pytest
import tensorflow as tf

from albert_keras.layers import LayerNorm
from tests import numpy_albert
from tests.layer_contract import fill_weights

pytestmark = pytest.mark.both_kerases


@pytest.mark.parametrize("epsilon", [1e-12, 0.5])
def test_it_normalises_the_last_axis(epsilon):
    layer = LayerNorm(epsilon)
    x = np.random.default_rng(0).normal(2, 3, size=(2, 3, 8))
    layer(tf.constant(x, tf.float32))
    weights = fill_weights(layer)
    expected = numpy_albert.layer_norm(x, weights["gamma"], weights["beta"], epsilon)
    np.testing.assert_allclose(layer(tf.constant(x, tf.float32)), expected, atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "bfloat16", "mixed_float16"])
def test_it_is_exact_where_sixteen_bits_would_lose_everything(policy):
    # The values differ by less than bfloat16 or float16 can resolve at 1000 and 1e-4, and the
    # second row's variance of 1e-10 is 0 in float16.
    x = np.stack([1000 + np.arange(8.0) / 10, 1e-5 * np.arange(8.0)])
    layer = LayerNorm(dtype=policy)
    y = layer(tf.constant(x, tf.float32))
    assert y.dtype == layer.compute_dtype != "float32"
    expected = numpy_albert.layer_norm(x, 1.0, 0.0)
    # Only the result is rounded, to 8 bits at values up to 2 (float32 itself: 3e-4 at 1000).
    np.testing.assert_allclose(tf.cast(y, tf.float32), expected, atol=2**-8)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "bfloat16"])
def test_its_weights_are_not_rounded(policy):
    layer = LayerNorm(dtype=policy)
    layer.build((None, 2))
    layer.gamma.assign([1000.0, 1000.0])
    # bfloat16 has no number between 1000 and 1004: rounded, both would cancel to 0.
    layer.beta.assign([1000.5, -1000.25])
    y = tf.cast(layer(tf.constant([[-1.0, 1.0]])), tf.float32)
    np.testing.assert_allclose(y, [[0.5, -0.25]], atol=1e-3)


def test_an_epsilon_of_zero_is_refused():
    with pytest.raises(ValueError, match="`epsilon` must be above 0. Received: 0"):
        LayerNorm(0.0)
