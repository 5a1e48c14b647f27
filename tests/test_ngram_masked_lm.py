import numpy as np
import pytest
import tensorflow as tf

from albert_keras.layers import NgramMaskedLM
from albert_keras.masking import ngram_mask
from tests import numpy_albert
from tests.layer_contract import fill_weights

pytestmark = pytest.mark.both_kerases

KINDS = np.array([0] * 5 + [2, 1] * 10, np.int8)
IDS = np.array([[2, *range(5, 22), 3], [2, *range(22, 5, -1), 3]])


def test_it_predicts_the_masked_positions_from_the_table():
    layer = NgramMaskedLM(vocabulary_size=11, embedding_size=4)
    rng = np.random.default_rng(0)
    hidden, table = rng.normal(size=(2, 5, 8)), rng.normal(size=(11, 4))
    positions = np.array([[4, 1, 0], [2, 2, 3]])
    arguments = (
        tf.constant(hidden, tf.float32),
        tf.constant(positions),
        tf.constant(table, tf.float32),
    )
    layer(*arguments)
    weights = fill_weights(layer)
    x = np.stack([hidden[row][positions[row]] for row in range(2)])
    x = numpy_albert.gelu_tanh(x @ weights["dense/kernel"] + weights["dense/bias"])
    x = numpy_albert.layer_norm(x, weights["LayerNorm/gamma"], weights["LayerNorm/beta"])
    np.testing.assert_allclose(layer(*arguments), x @ table.T + weights["output_bias"], atol=1e-5)


def test_masking_uses_the_settings_of_the_layer():
    layer = NgramMaskedLM(
        23, 4, ngram=2, rate=0.4, mask_fraction=0.5, random_fraction=0.5, max_predictions=6
    )
    expected = ngram_mask(
        tf.constant(IDS),
        KINDS,
        [3, 4],
        max_predictions=6,
        ngram=2,
        rate=0.4,
        mask_fraction=0.5,
        random_fraction=0.5,
        mask_id=4,
    )
    value = layer.mask(tf.constant(IDS), [3, 4], KINDS)
    assert sorted(value) == sorted(expected)
    for name in expected:
        np.testing.assert_array_equal(value[name], expected[name])


def test_without_a_number_of_slots_there_is_room_for_a_full_row():
    layer = NgramMaskedLM(23, 4, rate=0.25)
    masked = layer.mask(tf.constant(IDS), [3, 4], KINDS)
    assert masked["masked_positions"].shape == [2, round(0.25 * IDS.shape[1])]
    assert masked["masked_weights"].numpy().all()


@pytest.mark.parametrize(
    "arguments,message",
    [
        ({"vocabulary_size": 0}, "`vocabulary_size` must be at least 1"),
        ({"ngram": 0}, "`ngram` must be at least 1. Received: 0"),
        ({"max_predictions": 0}, "`max_predictions` must be at least 1"),
        ({"rate": 0.0}, "`rate` must be above 0 and at most 1"),
        ({"mask_fraction": 0.8, "random_fraction": 0.3}, "shares of one whole"),
    ],
)
def test_settings_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        NgramMaskedLM(**{"vocabulary_size": 11, "embedding_size": 4, **arguments})
