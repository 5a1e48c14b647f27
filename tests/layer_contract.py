"""The contract that every public layer keeps, as one helper, and how tests fill weights."""

import dataclasses
import functools
import inspect
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Row:
    """A layer and what it is called with.

    `arguments`: of the constructor. `inputs`: function of a random generator that gives the call's
    arguments, the batch axis first. `constant_inputs`: how many of the last ones have no batch
    axis. `weights`: how many there are. `float32_outputs`: under every policy.
    """

    layer: type
    arguments: dict
    inputs: Callable
    weights: int
    constant_inputs: int = 0
    float32_outputs: bool = False

    def make(self, **more):
        return self.layer(**self.arguments, name="layer", **more)

    def example(self):
        return [tf.constant(value) for value in self.inputs(np.random.default_rng(0))]


def path_of(weight) -> str:
    return getattr(weight, "path", weight.name).removesuffix(":0")


def fill_weights(layer) -> dict[str, np.ndarray]:
    """Gives every weight its own sequence of distinct values, so that a swap or transpose shows.

    Returns the values in float64 by the path below the layer's own name ("query/kernel").
    """
    values = {}
    for index, weight in enumerate(layer.weights):
        steps = np.arange(1 + 1000 * index, 1 + 1000 * index + int(np.prod(weight.shape)))
        # Multiples of the golden ratio modulo 1: distinct, and spread evenly.
        filled = (steps * 0.6180339887498949 % 1 - 0.5).reshape(weight.shape)
        if path_of(weight).endswith("gamma"):
            filled += 1
        weight.assign(filled)
        values[path_of(weight).split("/", 1)[-1]] = np.asarray(weight.numpy(), np.float64)
    return values


def functional_model(row: Row, layer):
    """The layer alone in a functional model with an open batch axis."""
    example = row.example()
    batched = example[: len(example) - row.constant_inputs]
    constants = example[len(batched) :]
    inputs = [
        tf.keras.Input(value.shape[1:], dtype=value.dtype.name, name=f"input_{index}")
        for index, value in enumerate(batched)
    ]
    # A constant arrives as it does in a model: from another layer.
    tables = [
        _ConstantTable(value.shape.as_list(), name=f"table_{index}")(inputs[0])
        for index, value in enumerate(constants)
    ]
    return tf.keras.Model(inputs, layer(*inputs, *tables))


@tf.keras.utils.register_keras_serializable(package="albert_keras_tests")
class _ConstantTable(tf.keras.layers.Layer):
    def __init__(self, shape, **kwargs):
        super().__init__(**kwargs)
        self.shape_of_table = shape

    def build(self, _):
        self.table = self.add_weight(
            name="table", shape=self.shape_of_table, initializer="glorot_uniform"
        )
        super().build(_)

    def call(self, _):
        return tf.identity(tf.convert_to_tensor(self.table))

    def get_config(self):
        return {**super().get_config(), "shape": list(self.shape_of_table)}


def flat(outputs) -> list:
    return tf.nest.flatten(outputs)


def operation_types(function, arguments) -> dict[str, set]:
    """The number types that each kind of operation works in, in all functions called, too."""
    graph = tf.function(function).get_concrete_function(*arguments).graph.as_graph_def()
    nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
    types = {}
    for node in nodes:
        if node.attr["T"].type:
            types.setdefault(node.op, set()).add(tf.as_dtype(node.attr["T"].type))
    return types


def check_config_survives_json(row: Row):
    layer = row.make()
    config = json.loads(json.dumps(layer.get_config()))
    assert type(layer).from_config(dict(config)).get_config() == config
    parameters = inspect.signature(row.layer.__init__).parameters
    named = {name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD}
    assert named - {"self"} <= set(config)
    for name, value in row.arguments.items():
        assert config[name] == (list(value) if isinstance(value, tuple) else value), name
    registered = json.loads(json.dumps(tf.keras.layers.serialize(layer)))
    assert type(tf.keras.layers.deserialize(registered)) is row.layer


def check_build_makes_all_weights(row: Row):
    layer, example = row.make(), row.example()
    layer.build(tuple(example[0].shape))
    assert layer.built
    assert len(layer.weights) == row.weights
    layer(*example)
    assert len(layer.weights) == row.weights


def check_symbolic_and_eager_shapes_agree(row: Row):
    layer, example = row.make(), row.example()
    symbolic = flat(functional_model(row, layer).outputs)
    eager = flat(layer(*example))
    assert len(symbolic) == len(eager)
    for expected, value in zip(symbolic, eager, strict=True):
        assert tf.TensorShape(expected.shape).is_compatible_with(value.shape)
        assert tf.as_dtype(expected.dtype) == value.dtype


def check_a_compiled_step_moves_every_weight(row: Row):
    layer, example = row.make(), row.example()
    model = functional_model(row, layer)
    # A layer may give a table beside its output, which has no batch to take a loss over.
    model = tf.keras.Model(model.inputs, flat(model.outputs)[0])
    batched = example[: len(example) - row.constant_inputs]
    target = np.random.default_rng(1).normal(size=model(batched).shape)
    before = fill_weights(layer)
    model.compile(tf.keras.optimizers.Adam(1e-2), loss="mse")
    history = model.fit(batched, target, verbose=0, batch_size=len(target))
    assert np.isfinite(history.history["loss"]).all()
    for weight in layer.trainable_weights:
        name = path_of(weight).split("/", 1)[-1]
        # Softmax does not see what is added to all scores of a query, so this has no gradient.
        if not name.endswith("key/bias"):
            assert np.abs(weight.numpy() - before[name]).max() > 1e-4, name
        assert np.isfinite(weight.numpy()).all(), name


def check_xla_gives_the_eager_values(row: Row):
    layer, example = row.make(), row.example()
    layer(*example)
    fill_weights(layer)
    compiled = tf.function(lambda *inputs: layer(*inputs), jit_compile=True)
    for expected, value in zip(flat(layer(*example)), flat(compiled(*example)), strict=True):
        # Another order of the same float32 sums.
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


def check_bfloat16_keeps_normalisation_and_softmax_in_float32(row: Row):
    layer, example = row.make(dtype="mixed_bfloat16"), row.example()
    outputs = flat(layer(*example))
    assert {weight.dtype for weight in layer.weights} <= {"float32", tf.float32}
    expected = tf.float32 if row.float32_outputs else tf.bfloat16
    assert {output.dtype for output in outputs} == {expected}
    options = [{}]
    if "training" in inspect.signature(layer.call).parameters:
        options = [{"training": False}, {"training": True}]
    for option in options:
        types = operation_types(functools.partial(layer, **option), example)
        for operation in ("Softmax", "Exp", "Rsqrt", "Sqrt", "Mean", "Sum"):
            assert types.get(operation, set()) <= {tf.float32}, operation
        if "MatMul" in types and not row.float32_outputs:
            assert types["MatMul"] == {tf.bfloat16}
    # A second, full-precision layer with the same weights: bfloat16 keeps 8 bits.
    full = row.make()
    full(*example)
    fill_weights(full)
    fill_weights(layer)
    for exact, value in zip(flat(full(*example)), flat(layer(*example)), strict=True):
        scale = float(tf.reduce_max(tf.abs(exact)))
        np.testing.assert_allclose(
            tf.cast(value, tf.float32), tf.cast(exact, tf.float32), atol=0.05 * scale
        )


def check_a_saved_model_reloads(row: Row, folder: Path):
    layer, example = row.make(), row.example()
    model = functional_model(row, layer)
    fill_weights(layer)
    model.save(folder / "model.keras")
    reloaded = tf.keras.models.load_model(folder / "model.keras")
    assert type(reloaded.get_layer("layer")) is row.layer
    batched = example[: len(example) - row.constant_inputs]
    for expected, value in zip(flat(model(batched)), flat(reloaded(batched)), strict=True):
        np.testing.assert_array_equal(value, expected)
    # Keras 2 loads without the layer's own name in front; the rest stays, and with it what an
    # optimizer excludes by name.
    for weight, again in zip(layer.weights, reloaded.get_layer("layer").weights, strict=True):
        assert path_of(weight).removeprefix("layer/") == path_of(again).removeprefix("layer/")
