import numpy as np
import pytest
import tensorflow as tf

from albert_keras.layers.activations import activation_named
from tests import numpy_albert

pytestmark = pytest.mark.both_kerases

X = np.linspace(-6, 6, 101)


@pytest.mark.parametrize(
    "name,expected",
    [
        ("gelu_tanh", numpy_albert.gelu_tanh(X)),
        ("gelu_erf", numpy_albert.gelu_erf(X)),
        ("relu", np.maximum(X, 0)),
        ("tanh", np.tanh(X)),
        ("linear", X),
    ],
)
def test_each_name_means_one_formula(name, expected):
    value = activation_named(name)(tf.constant(X, tf.float32))
    np.testing.assert_allclose(value, expected, atol=2e-6)


def test_the_two_forms_of_gelu_differ():
    difference = numpy_albert.gelu_tanh(X) - numpy_albert.gelu_erf(X)
    assert 1e-4 < np.abs(difference).max() < 1e-3


@pytest.mark.parametrize(
    "name,message",
    [
        ("gelu", 'Use "gelu_tanh" .Google.* or "gelu_erf"'),
        ("gelu_new", 'Use "gelu_tanh"'),
        ("gelu_tan", 'Did you mean "gelu_tanh"'),
        ("swish", "Received: 'swish'"),
    ],
)
def test_an_ambiguous_or_unknown_name_is_refused(name, message):
    with pytest.raises(ValueError, match=message):
        activation_named(name)
