import numpy as np
import pytest
import tensorflow as tf

from albert_keras.layers import SelfAttention
from albert_keras.layers.attention import additive_mask, masked_softmax
from tests import numpy_albert
from tests.layer_contract import fill_weights

pytestmark = pytest.mark.both_kerases

MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])


def example():
    return np.random.default_rng(0).normal(size=(2, 5, 12))


def built(**arguments):
    layer = SelfAttention(num_heads=3, **arguments)
    layer(tf.zeros([2, 5, 12]), tf.constant(MASK))
    return layer, fill_weights(layer)


def test_it_attends_in_heads_to_the_tokens_that_are_not_padding():
    layer, weights = built()
    x = example()
    expected = numpy_albert.attention(x, MASK, weights, num_heads=3)
    np.testing.assert_allclose(
        layer(tf.constant(x, tf.float32), tf.constant(MASK)), expected, atol=2e-5
    )


@pytest.mark.parametrize("dtype", ["int32", "bool", "float32"])
def test_the_mask_may_be_of_any_type(dtype):
    layer, weights = built()
    x = example()
    expected = numpy_albert.attention(x, MASK, weights, num_heads=3)
    mask = tf.cast(MASK, dtype)
    np.testing.assert_allclose(layer(tf.constant(x, tf.float32), mask), expected, atol=2e-5)


def test_a_row_of_padding_alone_gives_numbers():
    layer, weights = built()
    x = example()
    nothing = np.zeros_like(MASK)
    value = layer(tf.constant(x, tf.float32), tf.constant(nothing))
    # Adding -10000 to every score changes no probability; float32 keeps 1e-3 of such a score.
    expected = numpy_albert.attention(x, np.ones_like(MASK), weights, num_heads=3)
    np.testing.assert_allclose(value, expected, atol=5e-3)


@pytest.mark.parametrize("training", [False, True])
def test_mask_and_softmax_are_float32_even_for_bfloat16(training):
    # Scores near 10000 lie 64 apart in bfloat16. In float32 the mask's -10000 leaves these two
    # equal; rounded to bfloat16 it would be -9984, and the second all of it.
    products = tf.cast([[[[0.0, 9984.0]]]], tf.bfloat16)
    additive = additive_mask(tf.constant([[1, 0]]))
    probabilities = masked_softmax(1.0, training)(products, additive)
    assert probabilities.dtype == tf.bfloat16
    expected = np.exp([0.0, -16.0]) / np.exp([0.0, -16.0]).sum()
    np.testing.assert_allclose(tf.cast(probabilities, tf.float32)[0, 0, 0], expected, rtol=1e-2)


def test_the_fused_layer_gives_the_values_and_gradients_of_the_plain_one():
    layer, _ = built()
    x, mask = tf.constant(example(), tf.float32), tf.constant(MASK)
    results = []
    for training in (False, True):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = layer(x, mask, training=training)
            loss = tf.reduce_sum(value * tf.sin(tf.range(tf.size(value), dtype=tf.float32))[0])
            loss += tf.reduce_sum(tf.square(value) * x)
        results.append([value, *tape.gradient(loss, [x, *layer.trainable_weights])])
    for plain, fused in zip(*results, strict=True):
        np.testing.assert_allclose(fused, plain, rtol=1e-4, atol=1e-4)


def test_each_dropout_exists_only_above_zero_and_acts_only_in_training():
    x, mask = tf.constant(example(), tf.float32), tf.constant(MASK)
    plain, _ = built()
    assert plain.dropout_layer is None and plain.attention_dropout_layer is None
    for rate in ("dropout", "attention_dropout"):
        layer, _ = built(**{rate: 0.5})
        np.testing.assert_array_equal(layer(x, mask), plain(x, mask))
        assert np.abs(layer(x, mask, training=True) - plain(x, mask)).max() > 0.01


def test_heads_that_do_not_divide_the_hidden_size_are_refused():
    with pytest.raises(ValueError, match="Received: hidden size 10, num_heads 3"):
        SelfAttention(num_heads=3).build((None, None, 10))


def test_a_rate_of_dropout_outside_its_range_is_refused():
    with pytest.raises(ValueError, match="`attention_dropout` must be at least 0 and below 1"):
        SelfAttention(num_heads=2, attention_dropout=1.0)
