import numpy as np
import pytest
import tensorflow as tf

from albert_keras.layers import SelfAttention
from albert_keras.layers.attention import attention_scores
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


def test_scores_are_float32_even_from_bfloat16():
    query = tf.cast(tf.ones([1, 1, 2, 4]), tf.bfloat16)
    scores = attention_scores(query, query, tf.constant([[1, 0]]))
    assert scores.dtype == tf.float32
    # bfloat16 has no number between -9984 and -10048.
    np.testing.assert_array_equal(scores[0, 0, 0], [2, -9998])


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
