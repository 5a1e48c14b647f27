import numpy as np
import pytest
import tensorflow as tf

from albert_keras.layers import Pooler
from tests.layer_contract import fill_weights

pytestmark = pytest.mark.both_kerases


def test_it_takes_the_first_token_only():
    layer = Pooler()
    x = np.random.default_rng(0).normal(size=(2, 3, 8))
    layer(tf.constant(x, tf.float32))
    weights = fill_weights(layer)
    expected = np.tanh(x[:, 0] @ weights["dense/kernel"] + weights["dense/bias"])
    np.testing.assert_allclose(layer(tf.constant(x, tf.float32)), expected, atol=1e-6)
