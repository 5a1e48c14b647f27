"""with_sharing: the same function with other sharing."""

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.config import SharingPattern
from albert_keras.model import build_albert, config_of
from albert_keras.reshaping import with_sharing
from tests.layer_contract import fill_weights

pytestmark = pytest.mark.both_kerases

IDS = np.array([[2, 17, 45, 3, 99, 3], [2, 8, 3, 0, 0, 0]])
INPUTS = {
    "token_ids": tf.constant(IDS, tf.int32),
    "segment_ids": tf.constant([[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]]),
    "padding_mask": tf.constant((IDS > 0).astype("int32")),
}


@pytest.mark.parametrize(
    "sharing", ["none", "attention", 2, SharingPattern((1, 0, 0, 1), (0,) * 4)]
)
def test_an_unshared_model_comes_from_a_shared_one_and_goes_back(sharing):
    shared = build_albert("tiny", num_hidden_layers=4, output_all_layers=True)
    fill_weights(shared)
    unshared = with_sharing(shared, sharing)
    assert config_of(unshared).sharing == sharing
    again = with_sharing(unshared, "all")
    assert config_of(again) == config_of(shared)
    for model in (unshared, again):
        for value, expected in zip(
            tf.nest.flatten(model(INPUTS)), tf.nest.flatten(shared(INPUTS)), strict=True
        ):
            np.testing.assert_allclose(value, expected, atol=1e-6)


def test_layers_whose_weights_differ_cannot_come_to_share_them():
    encoder = build_albert("tiny", num_hidden_layers=4, sharing=2)
    with pytest.raises(ValueError, match="layers 0 and 2 would share attention weights"):
        with_sharing(encoder, "all")
    with_sharing(encoder, SharingPattern((0, 0, 1, 1), (0, 0, 1, 2)))
