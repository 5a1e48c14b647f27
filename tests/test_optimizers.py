import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.backend import path_of
from albert_keras.layers import LayerNorm, Linear
from albert_keras.model import build_albert, build_pretrainer
from albert_keras.optimizers import OPTIMIZERS, AdamW, Lamb, optimizer_named, trust_ratio
from albert_keras.pretraining_model import with_pretraining_loss
from albert_keras.schedule import WarmupLinearDecay
from tests.test_pretraining_model import batch

pytestmark = pytest.mark.both_kerases


def lamb_in_numpy(weights, gradients, *, rate, excluded, bias_correction, decay=0.01):
    """Algorithm 2 of You et al. for one variable, float64."""
    w = weights.astype("float64")
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(gradients, start=1):
        g = g.astype("float64")
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        m_hat, v_hat = (m / (1 - 0.9**t), v / (1 - 0.999**t)) if bias_correction else (m, v)
        u = m_hat / (np.sqrt(v_hat) + 1e-6)
        ratio = 1.0
        if not excluded:
            u = u + decay * w
            norms = np.linalg.norm(w), np.linalg.norm(u)
            ratio = norms[0] / norms[1] if min(norms) > 0 else 1.0
        w = w - rate * ratio * u
    return w


def start_and_gradients(steps=20):
    """The start and gradients of the golden trajectories, in the order of data/golden's README."""
    rng = np.random.default_rng(7)
    start = {
        "dense/kernel": rng.normal(0, 0.05, (12, 8)),
        "dense/bias": np.zeros(8),
        "LayerNorm/gamma": np.ones(8),
        "LayerNorm/beta": rng.normal(0, 0.01, 8),
        "emb/embeddings": rng.normal(0, 0.02, (20, 6)),
    }
    start = {name: value.astype("float32") for name, value in start.items()}
    gradients = [
        {name: (rng.normal(0, 0.1, v.shape) + 0.05).astype("float32") for name, v in start.items()}
        for _ in range(steps)
    ]
    return start, gradients


def variables_named_like(start):
    dense, norm = Linear(8, name="dense"), LayerNorm(name="LayerNorm")
    embedding = tf.keras.layers.Embedding(20, 6, name="emb")
    dense(tf.ones([1, 12]))
    norm(tf.ones([1, 8]))
    embedding(tf.constant([0]))
    variables = {
        path_of(v): v for layer in (dense, norm, embedding) for v in layer.trainable_weights
    }
    assert set(variables) == set(start)
    for name, value in start.items():
        variables[name].assign(value)
    return variables


def trajectory(optimizer, compiled=False):
    start, gradients = start_and_gradients()
    variables = variables_named_like(start)
    optimizer.build(list(variables.values()))

    def step(gradients):
        optimizer.apply_gradients([(gradients[name], variables[name]) for name in variables])

    if compiled:
        step = tf.function(step, jit_compile=True)
    for each in gradients:
        step({name: tf.constant(value) for name, value in each.items()})
    return {name: variable.numpy() for name, variable in variables.items()}


@pytest.mark.parametrize("bias_correction", [True, False])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_trajectory_is_algorithm_2(bias_correction, compiled):
    value = trajectory(
        Lamb(0.01, bias_correction=bias_correction, global_clipnorm=None), compiled=compiled
    )
    start, gradients = start_and_gradients()
    for name in start:
        expected = lamb_in_numpy(
            start[name],
            [each[name] for each in gradients],
            rate=0.01,
            excluded=name not in ("dense/kernel", "emb/embeddings"),
            bias_correction=bias_correction,
        )
        np.testing.assert_allclose(value[name], expected, atol=2e-6, err_msg=name)


@pytest.mark.parametrize(
    "golden,bias_correction", [("tfa", True), ("tfm", True), ("albert", False)]
)
def test_the_trajectory_is_the_golden_one(data_folder, golden, bias_correction):
    expected = np.load(data_folder / "golden" / f"lamb_{golden}.npz")
    value = trajectory(Lamb(0.01, bias_correction=bias_correction, global_clipnorm=None))
    assert {name.replace("/", "__") for name in value} == set(expected.files)
    for name in value:
        # 20 float32 steps in another order of operations.
        np.testing.assert_allclose(value[name], expected[name.replace("/", "__")], atol=2e-6)


def test_the_two_forms_differ_where_there_is_no_adaptation():
    with_correction = trajectory(Lamb(0.01, bias_correction=True, global_clipnorm=None))
    without = trajectory(Lamb(0.01, global_clipnorm=None))
    assert np.abs(with_correction["dense/bias"] - without["dense/bias"]).max() > 0.5
    assert np.abs(with_correction["dense/kernel"] - without["dense/kernel"]).max() < 1e-4


def test_sparse_gradients_count_as_dense_ones():
    weights = {}
    for sparse in (False, True):
        layer = tf.keras.layers.Embedding(5, 3, name="emb")
        layer(tf.constant([0]))
        layer.embeddings.assign(np.arange(15.0).reshape(5, 3))
        slices = tf.IndexedSlices(tf.ones([3, 3]), tf.constant([1, 4, 1]), tf.constant([5, 3]))
        optimizer = Lamb(0.1, global_clipnorm=None)
        gradient = slices if sparse else tf.convert_to_tensor(slices)
        optimizer.apply_gradients([(gradient, layer.trainable_weights[0])])
        weights[sparse] = layer.embeddings.numpy()
    np.testing.assert_allclose(weights[True], weights[False], rtol=1e-6)
    # Weight decay reaches the rows without a gradient.
    assert (weights[True][3] < [9, 10, 11]).all()


def test_gradients_are_clipped_to_their_global_norm():
    steps = {}
    for clip, scale in [(1.0, 1.0), (1.0, 100.0), (None, 100.0)]:
        layer = Linear(2, name="dense")
        layer(tf.ones([1, 2]))
        optimizer = Lamb(0.1, global_clipnorm=clip, epsilon=1.0)
        gradients = [tf.constant([[3.0, 0.0], [0.0, 4.0]]) * scale, tf.zeros([2])]
        layer.kernel.assign([[1.0, 2.0], [3.0, 4.0]])
        optimizer.apply_gradients(zip(gradients, layer.trainable_weights, strict=True))
        steps[clip, scale] = layer.kernel.numpy()
    np.testing.assert_allclose(steps[1.0, 1.0], steps[1.0, 100.0], rtol=1e-6)
    assert np.abs(steps[None, 100.0] - steps[1.0, 100.0]).max() > 1e-3


def test_in_a_whole_model_biases_and_normalisation_weights_are_excluded():
    model = build_pretrainer(build_albert("tiny", sharing="none"))
    optimizer = Lamb()
    optimizer.build(model.trainable_weights)
    excluded = {
        path_of(w) for w, e in zip(model.trainable_weights, optimizer.excluded, strict=True) if e
    }
    expected = {path_of(w) for w in model.trainable_weights if len(w.shape) == 1}
    assert excluded == expected
    # Also in a model read back from a file, where Keras 2 shortens some names.
    assert all(optimizer.excludes(p) for p in ("gamma", "beta", "bias", "output_bias"))
    assert not any(optimizer.excludes(p) for p in ("kernel", "emb/embeddings", "alphabeta/kernel"))


def test_the_patterns_are_the_callers_to_choose():
    optimizer = Lamb(exclude=["^head/"])
    assert optimizer.excludes("head/kernel")
    assert not optimizer.excludes("encoder/head/bias")


def test_the_trust_ratio_is_one_where_a_norm_is_zero():
    two = tf.constant([2.0, 0.0])
    assert trust_ratio(two, two / 4).numpy() == 4
    assert trust_ratio(tf.zeros([2]), two).numpy() == 1
    assert trust_ratio(two, tf.zeros([2])).numpy() == 1


@pytest.mark.parametrize("rate", [0.002, WarmupLinearDecay(0.002, 3, 10)])
def test_a_lamb_survives_json(rate):
    optimizer = Lamb(
        rate, bias_correction=True, weight_decay=0.02, exclude=("a", "b"), epsilon=1e-5
    )
    config = json.loads(json.dumps(tf.keras.optimizers.serialize(optimizer)))
    again = tf.keras.optimizers.deserialize(config)
    assert type(again) is Lamb
    assert json.dumps(again.get_config()) == json.dumps(optimizer.get_config())
    assert (again.exclude, again.bias_correction) == (("a", "b"), True)
    assert again.get_config()["weight_decay"] == 0.02
    assert again.get_config()["global_clipnorm"] == 1.0


@pytest.mark.parametrize("policy,jit", [("float32", True), ("mixed_bfloat16", False)])
def test_it_trains_under_xla_and_mixed_precision(policy, jit):
    tf.keras.mixed_precision.set_global_policy(policy)
    try:
        model = with_pretraining_loss(build_pretrainer(build_albert("tiny", num_hidden_layers=1)))
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    model.compile(Lamb(WarmupLinearDecay(0.02, 2, 100)), jit_compile=jit)
    dataset = tf.data.Dataset.from_tensors(batch()).repeat(10)
    history = model.fit(dataset, epochs=2, verbose=0, shuffle=False).history
    assert history["loss"][-1] < history["loss"][0] - 0.3


TWO_REPLICAS = """
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

from albert_keras.pretraining_model import with_pretraining_loss
from albert_keras.model import build_albert, build_pretrainer
from albert_keras.optimizers import Lamb
from albert_keras.schedule import WarmupLinearDecay
from tests.test_pretraining_model import batch

# Keras 3 clips on each replica, before the gradients are summed.
clip = None if hasattr(tf.keras, "ops") else 0.5
inputs = batch(rows=4)
inputs["masked_weights"][:] = 1
inputs["sop_weights"][:] = 1
losses, weights = [], []
for strategy in (tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])):
    tf.keras.utils.set_random_seed(1)
    with strategy.scope():
        model = with_pretraining_loss(build_pretrainer(build_albert("tiny")))
        rate = WarmupLinearDecay(0.01, 1, 100)
        model.compile(Lamb(rate, global_clipnorm=clip, epsilon=1e-3))
    dataset = tf.data.Dataset.from_tensors(inputs).repeat(4)
    losses.append(model.fit(dataset, verbose=0, shuffle=False).history["mlm_loss"])
    weights.append([w.numpy() for w in model.trainable_weights])
np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
for one, two in zip(*weights, strict=True):
    np.testing.assert_allclose(two, one, atol=1e-5)
"""


def test_two_replicas_step_as_one_does_on_the_whole_batch():
    # Devices are split before TensorFlow looks for them, hence in a process of its own.
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    process = subprocess.run(
        [sys.executable, "-c", TWO_REPLICAS], env=environment, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr[-3000:]


def test_a_saved_training_state_goes_on_exactly(tmp_path):
    def fresh():
        tf.keras.utils.set_random_seed(1)
        model = with_pretraining_loss(build_pretrainer(build_albert("tiny")))
        model.compile(Lamb(0.01))
        return model

    dataset = tf.data.Dataset.from_tensors(batch()).repeat(3)
    model = fresh()
    model.fit(dataset, verbose=0, shuffle=False)
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(tmp_path / "state")
    model.fit(dataset, verbose=0, shuffle=False)

    resumed = fresh()
    resumed.optimizer.build(resumed.trainable_variables)
    checkpoint = tf.train.Checkpoint(model=resumed, optimizer=resumed.optimizer)
    checkpoint.restore(path).assert_existing_objects_matched()
    assert int(resumed.optimizer.iterations) == 3
    assert any(np.abs(m.numpy()).max() > 0 for m in resumed.optimizer.momentums)
    resumed.fit(dataset, verbose=0, shuffle=False)
    for expected, value in zip(model.weights, resumed.weights, strict=True):
        np.testing.assert_array_equal(value.numpy(), expected.numpy())


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda: Lamb(beta_1=1.0), "Received: beta_1 1.0"),
        (lambda: Lamb(epsilon=0.0), "epsilon above 0"),
        (lambda: Lamb(weight_decay=-0.1), "weight_decay of at least 0"),
    ],
)
def test_numbers_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_adamw_follows_its_paper():
    rng = np.random.default_rng(0)
    weights = {"dense/kernel": rng.normal(size=(5, 3)), "dense/bias": rng.normal(size=3)}
    variables = [tf.Variable(value, name=name, dtype="float32") for name, value in weights.items()]
    optimizer = AdamW(0.01, weight_decay=0.1, global_clipnorm=None)
    moments = {
        name: (np.zeros_like(value), np.zeros_like(value)) for name, value in weights.items()
    }
    for step in range(1, 21):
        gradients = {name: rng.normal(size=value.shape) for name, value in weights.items()}
        optimizer.apply_gradients(
            [
                (tf.constant(g, tf.float32), v)
                for g, v in zip(gradients.values(), variables, strict=True)
            ]
        )
        for name, g in gradients.items():
            m, v = moments[name]
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            moments[name] = m, v
            adam = m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.999**step)) + 1e-6)
            decay = 0.1 if name.endswith("kernel") else 0
            weights[name] = weights[name] - 0.01 * (adam + decay * weights[name])
    for variable, expected in zip(variables, weights.values(), strict=True):
        np.testing.assert_allclose(variable.numpy(), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_weight_decay_leaves_biases_and_normalisation_alone(name):
    model = build_albert("tiny")
    optimizer = optimizer_named(name, 0.1, 0, 10)
    before = {id(v): np.array(v) for v in model.trainable_variables}
    optimizer.apply_gradients([(tf.zeros(v.shape), v) for v in model.trainable_variables])
    for variable in model.trainable_variables:
        path = getattr(variable, "path", variable.name)
        decays = not any(part in path for part in ("bias", "gamma", "beta"))
        changed = not np.array_equal(np.array(variable), before[id(variable)])
        assert changed == (decays and np.any(before[id(variable)])), path


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(ValueError, match="lamb, adamw. Received: 'adam'"):
        optimizer_named("adam", 0.1, 0, 10)
