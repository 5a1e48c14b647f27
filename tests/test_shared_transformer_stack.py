import numpy as np
import pytest
import tensorflow as tf

from albert_keras.layers import SharedTransformerStack
from tests import numpy_albert
from tests.layer_contract import fill_weights

pytestmark = pytest.mark.both_kerases

MASK = np.array([[1, 1, 1, 1], [1, 1, 1, 0]])
SIZES = {"num_layers": 4, "num_heads": 2, "intermediate_size": 12}


def example():
    return np.random.default_rng(0).normal(size=(2, 4, 8))


def block(weights, name):
    return {
        key.removeprefix(f"{name}/"): value
        for key, value in weights.items()
        if key.startswith(f"{name}/")
    }


@pytest.mark.parametrize(
    "attention,ffn",
    [
        (None, None),
        ((0, 0, 0, 0), (0, 1, 2, 3)),
        ((0, 1, 2, 3), (0, 0, 0, 0)),
        ((0, 0, 1, 1), (0, 0, 1, 1)),
        ((0, 1, 1, 1), (2, 0, 1, 0)),
    ],
)
def test_each_layer_uses_the_blocks_of_the_pattern(attention, ffn):
    stack = SharedTransformerStack(
        **SIZES, attention_pattern=attention, ffn_pattern=ffn, output_all_layers=True
    )
    x = example()
    stack(tf.constant(x, tf.float32), tf.constant(MASK))
    weights = fill_weights(stack)
    outputs = stack(tf.constant(x, tf.float32), tf.constant(MASK))
    assert len(outputs) == 5
    np.testing.assert_array_equal(outputs[0], x.astype("float32"))
    for i, output in enumerate(outputs[1:]):
        attention_weights = block(weights, f"attention_{(attention or [0] * 4)[i]}")
        x = numpy_albert.attention(x, MASK, attention_weights, num_heads=2)
        x = numpy_albert.feed_forward(x, block(weights, f"ffn_{(ffn or [0] * 4)[i]}"))
        np.testing.assert_allclose(output, x, atol=5e-5)


def test_there_are_as_many_blocks_as_the_patterns_name():
    stack = SharedTransformerStack(
        **SIZES, attention_pattern=(0, 0, 1, 2), ffn_pattern=(0, 0, 0, 1)
    )
    stack.build((None, None, 8))
    assert len(stack.attention_blocks) == 3
    assert len(stack.ffn_blocks) == 2
    assert len(stack.weights) == 3 * 10 + 2 * 6


def test_only_the_last_layer_is_given_by_default():
    stack = SharedTransformerStack(**SIZES)
    assert stack(tf.ones([2, 4, 8]), tf.constant(MASK)).shape == [2, 4, 8]


def test_unshared_blocks_start_with_different_weights():
    stack = SharedTransformerStack(**SIZES, attention_pattern=range(4), ffn_pattern=range(4))
    stack.build((None, None, 8))
    kernels = [b.query.kernel.numpy() for b in stack.attention_blocks]
    kernels += [b.key.kernel.numpy() for b in stack.attention_blocks]
    for i, one in enumerate(kernels):
        assert all(np.abs(one - other).max() > 1e-3 for other in kernels[:i])


@pytest.mark.parametrize("pattern", [(0, 0, 0), (0, 2, 0, 0), (1, 1, 1, 1), (0, -1, 0, 0)])
def test_a_pattern_of_the_wrong_length_or_with_gaps_is_refused(pattern):
    with pytest.raises(ValueError, match="`ffn_pattern` must name a block for each of the 4"):
        SharedTransformerStack(**SIZES, ffn_pattern=pattern)


def test_no_layers_are_refused():
    with pytest.raises(ValueError, match="`num_layers` must be at least 1. Received: 0"):
        SharedTransformerStack(**{**SIZES, "num_layers": 0})
