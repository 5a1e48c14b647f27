import numpy as np
import pytest
import tensorflow as tf

from albert_keras.layers import FactorizedEmbedding
from tests import numpy_albert
from tests.layer_contract import fill_weights, path_of

pytestmark = pytest.mark.both_kerases

IDS = np.array([[2, 9, 3, 3], [2, 0, 8, 3]])
SEGMENTS = np.array([[0, 0, 1, 1], [0, 1, 0, 1]])


def expected_sum(weights):
    x = weights["word_embeddings"][IDS] + weights["token_type_embeddings"][SEGMENTS]
    x = x + weights["position_embeddings"][: IDS.shape[1]]
    return numpy_albert.layer_norm(x, weights["LayerNorm/gamma"], weights["LayerNorm/beta"])


def test_it_sums_three_tables_normalises_and_projects():
    layer = FactorizedEmbedding(10, 4, 6, max_positions=5)
    layer(tf.constant(IDS), tf.constant(SEGMENTS))
    weights = fill_weights(layer)
    hidden, table = layer(tf.constant(IDS), tf.constant(SEGMENTS))
    projection = weights["embedding_hidden_mapping_in/kernel"]
    expected = expected_sum(weights) @ projection + weights["embedding_hidden_mapping_in/bias"]
    np.testing.assert_allclose(hidden, expected, atol=1e-5)
    np.testing.assert_array_equal(table, layer.word_embeddings.numpy())


def test_there_is_no_projection_when_the_widths_are_equal():
    layer = FactorizedEmbedding(10, 6, 6, max_positions=5)
    layer(tf.constant(IDS), tf.constant(SEGMENTS))
    weights = fill_weights(layer)
    assert layer.embedding_hidden_mapping_in is None
    hidden, _ = layer(tf.constant(IDS), tf.constant(SEGMENTS))
    np.testing.assert_allclose(hidden, expected_sum(weights), atol=1e-5)


def test_gradients_of_the_tables_are_dense_and_sum_both_uses_of_the_word_table():
    layer = FactorizedEmbedding(10, 4, 6, max_positions=5)
    with tf.GradientTape() as tape:
        hidden, table = layer(tf.constant(IDS), tf.constant(SEGMENTS))
        loss = tf.reduce_sum(table[1]) + 0 * tf.reduce_sum(hidden)
    weights = layer.trainable_weights
    gradients = tape.gradient(loss, weights)
    # Sparse ones with repeated rows would be clipped by the norm of their parts.
    assert all(isinstance(gradient, tf.Tensor) for gradient in gradients)
    expected = np.zeros((10, 4))
    expected[1] = 1
    index = [path_of(weight).endswith("word_embeddings") for weight in weights].index(True)
    np.testing.assert_array_equal(gradients[index], expected)


def test_gradients_of_a_frequent_token_are_summed_in_float32_under_bfloat16():
    layer = FactorizedEmbedding(10, 4, 4, max_positions=512, dtype="mixed_bfloat16")

    def gradient_of_token_7(times):
        ids = tf.fill([1, times], 7)
        with tf.GradientTape() as tape:
            hidden, _ = layer(ids, tf.zeros_like(ids))
            loss = tf.reduce_sum(tf.cast(hidden, tf.float32) * [3.0, -1.0, 0.5, 2.0])
        return tape.gradient(loss, layer.trainable_weights)[0][7].numpy()

    layer(tf.constant([[7]]), tf.constant([[0]]))
    assert layer.trainable_weights[0] is layer.word_embeddings
    layer.position_embeddings.assign(tf.zeros_like(layer.position_embeddings))
    # Summed in bfloat16, 256 equal numbers and one more are still 256.
    np.testing.assert_allclose(gradient_of_token_7(512), 512 * gradient_of_token_7(1), rtol=1e-4)


def test_tables_are_gathered_and_summed_in_float32_under_bfloat16():
    """Words that are large beside their differences, of which bfloat16 would leave nothing."""
    layer = FactorizedEmbedding(10, 4, 4, max_positions=5, dtype="mixed_bfloat16")
    layer(tf.constant(IDS), tf.constant(SEGMENTS))
    weights = fill_weights(layer)
    weights["word_embeddings"] = 256 + weights["word_embeddings"]
    layer.word_embeddings.assign(weights["word_embeddings"])
    hidden, _ = layer(tf.constant(IDS), tf.constant(SEGMENTS))
    assert hidden.dtype == tf.bfloat16
    # One rounding to 8 bits, at the end.
    np.testing.assert_allclose(
        tf.cast(hidden, tf.float32), expected_sum(weights), rtol=2**-8, atol=1e-3
    )


def test_dropout_comes_before_the_projection_and_acts_in_training_only():
    ids, segments = tf.constant(IDS), tf.constant(SEGMENTS)
    layer = FactorizedEmbedding(10, 4, 4, max_positions=5, dropout=0.5)
    plain = FactorizedEmbedding(10, 4, 4, max_positions=5)
    for each in (layer, plain):
        each(ids, segments)
        fill_weights(each)
    assert plain.dropout_layer is None
    np.testing.assert_array_equal(layer(ids, segments)[0], plain(ids, segments)[0])
    dropped, kept = layer(ids, segments, training=True)[0].numpy(), plain(ids, segments)[0].numpy()
    zeros = dropped == 0
    assert 0 < zeros.sum() < zeros.size
    np.testing.assert_allclose(dropped[~zeros], 2 * kept[~zeros], rtol=1e-6)


def test_a_sequence_longer_than_the_positions_is_refused_when_the_model_is_built():
    layer = FactorizedEmbedding(10, 4, 6, max_positions=3)
    with pytest.raises(ValueError, match="Received: length 4, max_positions 3"):
        layer(tf.keras.Input((4,), dtype="int32"), tf.keras.Input((4,), dtype="int32"))
    with pytest.raises(ValueError, match="Received: length 4, max_positions 3"):
        FactorizedEmbedding(10, 4, 6, max_positions=3)(tf.constant(IDS), tf.constant(SEGMENTS))


def test_a_size_below_one_is_refused():
    with pytest.raises(ValueError, match="`embedding_size` must be at least 1. Received: -4"):
        FactorizedEmbedding(10, -4, 6)


def test_a_rate_of_dropout_outside_its_range_is_refused():
    with pytest.raises(ValueError, match="`dropout` must be at least 0 and below 1"):
        FactorizedEmbedding(10, 4, 6, dropout=-0.1)
