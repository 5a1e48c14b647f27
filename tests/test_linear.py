import numpy as np
import pytest
import tensorflow as tf

from albert_keras.layers import Linear
from tests.layer_contract import fill_weights

pytestmark = pytest.mark.both_kerases


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (2, 3, 5, 4)])
def test_it_multiplies_the_last_axis_whatever_the_rank(shape):
    layer = Linear(6, activation="relu")
    x = np.random.default_rng(0).normal(size=shape)
    layer(tf.constant(x, tf.float32))
    weights = fill_weights(layer)
    expected = np.maximum(x @ weights["kernel"] + weights["bias"], 0)
    np.testing.assert_allclose(layer(tf.constant(x, tf.float32)), expected, atol=1e-5)


def test_one_graph_serves_every_batch_and_length():
    layer = Linear(6)
    layer.build((None, None, 4))

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4])])
    def call(x):
        y = layer(x)
        assert y.shape.as_list() == [None, None, 6]
        return y

    assert call(tf.ones([2, 3, 4])).shape == [2, 3, 6]
    assert call(tf.ones([0, 7, 4])).shape == [0, 7, 6]


def test_the_kernel_is_a_truncated_normal_of_the_given_deviation_and_the_bias_is_zero():
    layer = Linear(300, initializer_range=0.05)
    layer.build((None, 200))
    kernel = layer.kernel.numpy()
    # Cut off at two deviations, which leaves 0.88 of the deviation.
    assert kernel.std() == pytest.approx(0.05 * 0.8796, rel=0.02)
    assert np.abs(kernel).max() <= 0.1
    assert not layer.bias.numpy().any()


def test_a_size_below_one_is_refused():
    with pytest.raises(ValueError, match="`units` must be at least 1. Received: 0"):
        Linear(0)
