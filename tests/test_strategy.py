"""strategy_named, and that a step gives the same whatever its batch is divided over."""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_keras import load_albert
from albert_keras.data.records import write_records
from albert_keras.training.strategy import refuse_uneven_batch, strategy_named
from examples import pretrain_tpu
from examples.pretrain_multiworker import ended, started
from tests.small_tokenizer import small_tokenizer

ROOT = Path(__file__).resolve().parents[1]
VARIABLES = "TF_CONFIG", "TPU_NAME", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", "TPU_WORKER_ID"
# The order of a sum is all that differs. LAMB divides by norms, which makes it no worse.
LOSSES = {"rtol": 2e-5}
WEIGHTS = {"rtol": 1e-4, "atol": 2e-6}


@pytest.fixture(autouse=True)
def no_hardware_named(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def cluster(count=2, **task):
    addresses = [f"localhost:{9000 + index}" for index in range(count)]
    return {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": 0, **task}}


@pytest.mark.both_kerases
def test_a_machine_with_one_device_needs_no_strategy():
    for name in ("auto", "cpu"):
        assert strategy_named(name).num_replicas_in_sync == 1
    with strategy_named("cpu").scope():
        assert tf.Variable(0.0).device.endswith("CPU:0")


def test_a_cluster_of_one_machine_needs_no_strategy(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster(1)))
    assert strategy_named("auto").num_replicas_in_sync == 1


def test_an_unknown_strategy_is_refused():
    with pytest.raises(ValueError, match="one of auto, cpu, .*tpu. Received: 'gpu'"):
        strategy_named("gpu")


def test_several_gpus_are_mirrored(monkeypatch):
    gpus = [tf.config.LogicalDevice(f"/device:GPU:{index}", "GPU") for index in range(3)]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus * (kind == "GPU"))
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: gpus * (kind == "GPU"))
    monkeypatch.setattr(tf.distribute, "MirroredStrategy", lambda devices: devices)
    for name in ("auto", "mirrored"):
        assert strategy_named(name) == ["/device:GPU:0", "/device:GPU:1", "/device:GPU:2"]


def test_one_device_is_not_mirrored():
    with pytest.raises(
        ValueError, match='needs several devices. Received: CPU:0 alone. Use "auto"'
    ):
        strategy_named("mirrored")


@pytest.mark.parametrize("name", ["tpu", "auto"])
def test_a_tpu_that_is_not_there_is_named_with_what_to_do(monkeypatch, name):
    monkeypatch.setenv("TPU_NAME", "local")
    with pytest.raises(ValueError, match="No TPU was found under the name 'local'.*tensorflow-tpu"):
        strategy_named(name)


def test_two_packages_of_tensorflow_are_refused(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.20.0")
    with pytest.raises(ValueError, match="tensorflow-tpu without tensorflow, .*new environment"):
        strategy_named("tpu")


@pytest.mark.parametrize(
    "config,match",
    [
        (None, "from TF_CONFIG. Received: none"),
        ("{cluster", "TF_CONFIG must be JSON"),
        ("[]", "must be a JSON object"),
        ('{"cluster": ["localhost:9000"]}', "its cluster one of addresses by job"),
        ({"task": {"type": "worker", "index": 0}}, "must have a cluster"),
        ({"cluster": cluster()["cluster"]}, "a task with the type and index"),
        (cluster(index=2), "type and index of this machine"),
        (cluster(type="ps"), "type and index of this machine"),
        (cluster(index="0"), "type and index of this machine"),
        ({**cluster(), "cluster": {"worker": "localhost:9000"}}, "must have a cluster"),
        (cluster(1), "for several machines. Received: a TF_CONFIG with one"),
    ],
)
def test_a_cluster_that_is_none_is_refused(monkeypatch, config, match):
    if config is not None:
        text = config if isinstance(config, str) else json.dumps(config)
        monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=match):
        strategy_named("multiworker")


@pytest.mark.parametrize("name", ["multiworker", "auto"])
def test_workers_are_set_up_before_anything_else(monkeypatch, name):
    tf.constant(1.0)  # TensorFlow has begun
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster()))
    with pytest.raises(ValueError, match="before TensorFlow does anything else"):
        strategy_named(name)


@pytest.mark.parametrize(
    "batch_size,micro_batches,match",
    [(3, 2, "Received: 3, 1 and 2. Use 2 or 4"), (1, 4, "Use 4 or 8"), (0, 1, "Use 1 or 2")],
)
def test_a_batch_that_cannot_be_divided_is_refused(batch_size, micro_batches, match):
    strategy = tf.distribute.get_strategy()
    refuse_uneven_batch(12, strategy, 4)
    with pytest.raises(ValueError, match=match):
        refuse_uneven_batch(batch_size, strategy, micro_batches)


# What follows trains in processes of its own, see `tests.distributed_training`.


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records") / "set"
    write_records([ROOT / "LICENSE"], small_tokenizer(), folder, length=64, shards=2)
    return folder


def command(records, out, *cases):
    return [sys.executable, "-m", "tests.distributed_training", str(records), str(out), *cases]


def results_of(records, out, *cases):
    process = subprocess.run(
        command(records, out, *cases), cwd=ROOT, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return np.load(out)


@pytest.fixture(scope="module")
def alone(records, tmp_path_factory):
    """On one device, and its batches divided over two replicas of two micro-batches."""
    out = tmp_path_factory.mktemp("alone") / "out.npz"
    results = results_of(records, out, "1,1,1", "2,2,1")
    assert 0 < results["1,1,1 pairs"].mean() < 1  # weights that are not the same everywhere
    return results


def assert_same(results, case, alone, steps=1):
    losses = alone["1,1,1 losses"]
    assert losses[-1] < losses[0]  # something was learned
    if steps == 1:
        np.testing.assert_allclose(results[f"{case} losses"], losses, **LOSSES)
    np.testing.assert_allclose(results[f"{case} weights"], alone["1,1,1 weights"], **WEIGHTS)


@pytest.mark.both_kerases
def test_two_replicas_that_accumulate_train_as_one_device(alone):
    assert_same(alone, "2,2,1", alone)


def test_two_replicas_that_accumulate_learn_from_a_teacher_as_one_device(records, alone, tmp_path):
    cases = ("1,1,1,taught", "2,2,1,taught")
    results = results_of(records, tmp_path / "out.npz", *cases)
    ours, theirs = (results[f"{case} losses"] for case in cases)
    assert ours[-1] < ours[0]
    np.testing.assert_allclose(theirs, ours, **LOSSES)
    ours, theirs = (results[f"{case} weights"] for case in cases)
    assert np.abs(ours - alone["1,1,1 weights"]).max() > 0.01  # it was heard
    np.testing.assert_allclose(theirs, ours, **WEIGHTS)


def test_four_replicas_that_take_two_steps_in_a_call_train_as_one_device(records, alone, tmp_path):
    results = results_of(records, tmp_path / "out.npz", "4,1,2")  # which Keras 3 cannot
    assert_same(results, "4,1,2", alone, steps=2)


def test_two_workers_train_as_one_device_on_the_rows_of_its_batches(records, alone, tmp_path):
    out = tmp_path / "out-{worker}.npz"
    assert ended(started(command(records, out, "workers,2,1"), 2)) == [0, 0]
    first, second = (np.load(str(out).format(worker=index)) for index in range(2))
    for results in (first, second):
        assert_same(results, "workers,2,1", alone)
    np.testing.assert_array_equal(
        np.concatenate([first["workers,2,1 rows"], second["workers,2,1 rows"]], axis=1),
        alone["1,1,1 rows"],
    )


@pytest.fixture
def policy():
    before = tf.keras.mixed_precision.global_policy()
    yield
    tf.keras.mixed_precision.set_global_policy(before)


def test_the_example_for_a_tpu_trains_on_a_cpu(records, tmp_path, capsys, policy):
    arguments = {
        "records": records,
        "vocab": ROOT / "tests" / "vocabularies" / "tiny.model",
        "out": tmp_path / "run",
        **{"strategy": "cpu", "preset": "tiny", "length": 64, "batch": 8},
        **{"micro-batches": 2, "steps": 2, "steps-per-execution": 2},
    }
    pretrain_tpu.main(
        [word for name, value in arguments.items() for word in (f"--{name}", str(value))]
    )
    assert "2 steps on 1 replicas" in capsys.readouterr().out
    model, _ = load_albert(tmp_path / "run" / "model")
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
