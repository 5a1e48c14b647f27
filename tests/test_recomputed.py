"""With recomputation: the same numbers and gradients, from less memory."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.layers import SharedTransformerStack
from albert_keras.layers.recomputed import recomputed
from albert_keras.model import build_albert, config_of
from tests.layer_contract import fill_weights, path_of

pytestmark = pytest.mark.both_kerases

MASK = tf.constant([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
SIZES = {"num_layers": 3, "num_heads": 2, "intermediate_size": 12}
PATTERNS = {
    "all": {},
    "attention": {"ffn_pattern": (0, 1, 2)},
    "ffn": {"attention_pattern": (0, 1, 2)},
    "none": {"attention_pattern": (0, 1, 2), "ffn_pattern": (0, 1, 2)},
    "mixed": {"attention_pattern": (0, 1, 0), "ffn_pattern": (1, 0, 0)},
}
# Largest difference of a gradient, in parts of its norm. The same sums in another order; in
# bfloat16, whose numbers are exact to 2^-9, layers' shares are rounded where they are added.
TOLERANCES = {"float32": 1e-6, "mixed_bfloat16": 2e-2}


def example():
    rng = np.random.default_rng(0)
    return [tf.constant(rng.normal(size=(2, 5, 8)), tf.float32) for _ in range(2)]


def outputs_and_gradients(policy="float32", mode="graph", **arguments):
    """Of a function of every layer's output, with the input's gradient last, by weights' names."""
    stack = SharedTransformerStack(
        **SIZES, output_all_layers=True, dtype=policy, name="stack", **arguments
    )
    stack.build((None, None, 8))
    fill_weights(stack)
    weights = stack.trainable_weights

    def step(hidden, direction):
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            outputs = stack(hidden, MASK, training=True)
            outputs = [tf.cast(output, tf.float32) for output in outputs[2:]]
            loss = tf.add_n([tf.reduce_sum(output * direction) for output in outputs])
        return outputs, tape.gradient(loss, [*(w for w in weights), hidden])

    if mode != "eager":
        step = tf.function(step, jit_compile=mode == "xla")
    outputs, gradients = step(*example())
    names = [*map(path_of, weights), "input"]
    return outputs, dict(zip(names, gradients, strict=True))


@pytest.mark.parametrize(
    "sharing,policy,mode",
    [
        *((sharing, "float32", "graph") for sharing in PATTERNS),
        *(("mixed", policy, mode) for policy in TOLERANCES for mode in ("eager", "xla")),
        ("mixed", "mixed_bfloat16", "graph"),
    ],
)
def test_outputs_and_gradients_are_those_without_recomputation(sharing, policy, mode):
    arguments = {"policy": policy, "mode": mode, **PATTERNS[sharing]}
    expected_outputs, expected = outputs_and_gradients(**arguments)
    outputs, gradients = outputs_and_gradients(recompute=True, **arguments)
    for value, other in zip(outputs, expected_outputs, strict=True):
        np.testing.assert_allclose(value, other, atol=1e-6 if policy == "float32" else 0.04)
    assert set(gradients) == set(expected)
    largest = max(float(tf.norm(value)) for value in expected.values())
    for name, value in expected.items():
        # A gradient that is 0 but for rounding, such as of a key's bias, is measured by the others.
        scale = max(float(tf.norm(value)), 0.05 * largest)
        difference = float(tf.reduce_max(tf.abs(gradients[name] - value)))
        assert difference <= TOLERANCES[policy] * scale, (name, difference / scale)


def test_a_compiled_step_computes_a_layer_twice():
    """XLA merges computations that it finds to be equal."""

    def products(recompute):
        stack = SharedTransformerStack(**SIZES, recompute=recompute)
        hidden, direction = example()
        stack(hidden, MASK)

        @tf.function(jit_compile=True)
        def step():
            with tf.GradientTape() as tape:
                output = stack(hidden, MASK, training=True)
            return tape.gradient(output, stack.trainable_weights, direction)

        return step.experimental_get_compiler_ir()(stage="optimized_hlo").count(" dot(")

    # A layer has six products of matrices, of which its gradient does not need all.
    assert 3 * 4 <= products(recompute=True) - products(recompute=False) <= 3 * 6


def test_without_training_nothing_differs():
    def graph(recompute):
        stack = SharedTransformerStack(**SIZES, recompute=recompute, name="stack")
        call = tf.function(lambda hidden: stack(hidden, MASK, training=False))
        operations = call.get_concrete_function(example()[0]).graph.get_operations()
        return [operation.type for operation in operations]

    assert graph(recompute=True) == graph(recompute=False)


def test_a_step_needs_a_fraction_of_the_memory():
    stats = tf.config.experimental

    def megabytes(recompute):
        stack = SharedTransformerStack(16, 2, 256, recompute=recompute)
        stack.build((None, None, 64))

        @tf.function
        def step(hidden):
            with tf.GradientTape() as tape:
                output = stack(hidden, tf.ones([64, 128]), training=True)
            return tape.gradient(output, stack.trainable_weights, hidden)

        hidden = tf.random.normal([64, 128, 64])
        stats.reset_memory_stats("CPU:0")
        before = stats.get_memory_info("CPU:0")["current"]
        step(hidden)
        return (stats.get_memory_info("CPU:0")["peak"] - before) / 1e6

    try:
        stats.get_memory_info("CPU:0")
    except ValueError:
        pytest.skip("this TensorFlow does not count a CPU's memory")
    # A layer keeps its input, 2.1 MB of (B, S, H) = (64, 128, 64). Measured: 617 and 107 MB.
    assert megabytes(recompute=False) > 16 * 10 * 2.1
    assert megabytes(recompute=True) < 16 * 4 * 2.1


TWO_REPLICAS = """
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from albert_keras.layers import SharedTransformerStack

rows = np.random.default_rng(0).normal(size=(4, 3, 8)).astype("float32")
targets = np.random.default_rng(1).normal(size=(4, 3, 8)).astype("float32")
weights = []
for recompute in (False, True):
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        inputs = tf.keras.Input((3, 8)), tf.keras.Input((3,))
        stack = SharedTransformerStack(3, 2, 12, recompute=recompute)
        model = tf.keras.Model(inputs, stack(*inputs))
        for index, weight in enumerate(model.weights):
            weight.assign(0.1 * np.random.default_rng(index).normal(size=weight.shape))
        model.compile(tf.keras.optimizers.SGD(0.1), loss="mse")
    batches = tf.data.Dataset.from_tensors(((rows, np.ones((4, 3), "float32")), targets))
    model.fit(batches.repeat(3), steps_per_epoch=3, verbose=0)
    weights.append(model.get_weights())
for plain, again in zip(*weights):
    np.testing.assert_allclose(again, plain, atol=1e-6)
"""


def test_two_replicas_train_as_they_do_without():
    # Devices are split before TensorFlow looks for them, hence in a process of its own.
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    process = subprocess.run(
        [sys.executable, "-c", TWO_REPLICAS], env=environment, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr[-3000:]


def test_the_gradient_of_weights_behind_each_other_is_one_sum():
    """A worked case: y = k^3 x, so dy/dk = 3 k^2 x."""
    layer = recomputed(lambda hidden, additive, kernel: hidden * kernel + additive)
    kernel, x = tf.constant(2.0), tf.constant([5.0])
    with tf.GradientTape() as tape:
        tape.watch([kernel, x])
        hidden, weight = x, kernel
        for _ in range(3):
            hidden, weight = layer(hidden, 0.0, weight)
    assert [value.numpy() for value in tape.gradient(hidden, [kernel, x])] == [60.0, [8.0]]


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout"])
def test_dropout_is_refused(rate):
    with pytest.raises(ValueError, match=f"recompute=True with .*{rate} 0.1.* Set both to 0"):
        SharedTransformerStack(**SIZES, recompute=True, **{rate: 0.1})


def test_it_is_how_a_model_trains_and_not_what_it_is():
    encoder = build_albert("tiny", recompute=True)
    assert encoder.get_layer("encoder").recompute
    assert config_of(encoder) == config_of(build_albert("tiny"))
    again = tf.keras.models.model_from_json(encoder.to_json())
    assert again.get_layer("encoder").recompute
