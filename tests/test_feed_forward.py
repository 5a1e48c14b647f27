import numpy as np
import pytest
import tensorflow as tf

from albert_keras.layers import FeedForward
from tests import numpy_albert
from tests.layer_contract import fill_weights

pytestmark = pytest.mark.both_kerases


@pytest.mark.parametrize(
    "name,function", [("gelu_tanh", numpy_albert.gelu_tanh), ("gelu_erf", numpy_albert.gelu_erf)]
)
def test_two_projections_residual_and_norm(name, function):
    layer = FeedForward(intermediate_size=20, activation=name)
    x = np.random.default_rng(0).normal(size=(2, 3, 8))
    layer(tf.constant(x, tf.float32))
    expected = numpy_albert.feed_forward(x, fill_weights(layer), function)
    np.testing.assert_allclose(layer(tf.constant(x, tf.float32)), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["gelu_tanh", "gelu_erf", "relu"])
def test_training_gives_the_values_and_gradients_of_the_plain_layer(name):
    layer = FeedForward(intermediate_size=20, activation=name)
    x = tf.constant(np.random.default_rng(0).normal(size=(2, 3, 8)), tf.float32)
    layer(x)
    fill_weights(layer)
    results = []
    for training in (False, True):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = layer(x, training=training)
            loss = tf.reduce_sum(tf.square(value) * x)
        results.append([value, *tape.gradient(loss, [x, *layer.trainable_weights])])
    for plain, fused in zip(*results, strict=True):
        np.testing.assert_allclose(fused, plain, rtol=1e-4, atol=1e-4)


def test_dropout_acts_in_training_only():
    x = tf.constant(np.random.default_rng(0).normal(size=(2, 3, 8)), tf.float32)
    layer, plain = FeedForward(20, dropout=0.5), FeedForward(20)
    for each in (layer, plain):
        each(x)
        fill_weights(each)
    assert plain.dropout_layer is None
    np.testing.assert_array_equal(layer(x), plain(x))
    assert np.abs(layer(x, training=True) - plain(x)).max() > 0.01


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="`units` must be at least 1"):
        FeedForward(0)
    with pytest.raises(ValueError, match='or "gelu_erf"'):
        FeedForward(8, activation="gelu")


def test_a_rate_of_dropout_outside_its_range_is_refused():
    with pytest.raises(ValueError, match="`dropout` must be at least 0 and below 1"):
        FeedForward(8, dropout=-0.1)
