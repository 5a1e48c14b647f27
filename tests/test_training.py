"""train: what a run writes, and that stopping it at any moment changes nothing."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_keras import Lamb, WarmupLinearDecay
from albert_keras.optimizers import is_keras_3
from albert_keras.run_folder import begin_run
from albert_keras.saved_state import TrainingDiverged
from albert_keras.training import refuse_broken_pair, train

pytestmark = pytest.mark.both_kerases

STEPS, BATCH, WIDTH = 12, 8, 4


def regression(learning_rate=0.05, clip=1.0):
    tf.keras.utils.set_random_seed(3)
    model = tf.keras.Sequential([tf.keras.Input((WIDTH,)), tf.keras.layers.Dense(1)])
    rate = WarmupLinearDecay(learning_rate, 2, STEPS)
    model.compile(Lamb(rate, global_clipnorm=clip), loss="mse")
    return model


def batches_from(start, on_batch=None):
    """Batches that depend on their number alone; `on_batch` sees each number as it is used."""

    def generate():
        for step in itertools.count(start):
            if on_batch:
                on_batch(step)
            draws = np.random.default_rng(step)
            x = draws.normal(size=(BATCH, WIDTH)).astype(np.float32)
            yield x, x.sum(axis=1, keepdims=True)

    specs = tf.TensorSpec([BATCH, WIDTH]), tf.TensorSpec([BATCH, 1])
    return tf.data.Dataset.from_generator(generate, output_signature=specs)


def run(folder, batches=batches_from, resume=False, model=None, **options):
    begin_run(folder, {"batch": BATCH}, resume=resume)
    model = model or regression()
    settings = {"total_steps": STEPS, "tokens_per_step": BATCH, "log_every": 2, "quiet": True}
    reached = train(model, batches, folder, **{**settings, **options})
    return reached, [weight.numpy() for weight in model.weights]


def logged(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    reached, weights = run(folder)
    assert reached == STEPS
    return logged(folder), weights


def test_a_run_logs_the_mean_of_every_interval(uninterrupted):
    lines, _ = uninterrupted
    assert [line["step"] for line in lines] == [2, 4, 6, 8, 10, 12]
    assert set(lines[0]) == {"step", "loss", "learning_rate", "tokens_per_second"}
    # By hand: the first step's rate is 0, so both losses of the first interval are known.
    model = regression()
    kernel, bias = (weight.numpy() for weight in model.weights)
    losses = []
    for step in (0, 1):
        (x, y) = next(iter(batches_from(step)))
        losses.append(np.mean((x @ kernel + bias - y) ** 2))
    assert lines[0]["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert lines[0]["learning_rate"] == pytest.approx(
        0.05 * 1 / 2
    )  # of the second step, in the warm-up
    assert lines[-1]["loss"] < lines[0]["loss"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_asked_to_stop_saves_and_goes_on_with_the_same_batches(
    tmp_path, uninterrupted, number
):
    def ask_at_five(step):
        if step == 5:
            os.kill(os.getpid(), number)

    reached, _ = run(tmp_path / "run", lambda start: batches_from(start, ask_at_five))
    assert 0 < reached < STEPS
    used = []
    again, weights = run(
        tmp_path / "run", lambda start: batches_from(start, used.append), resume=True
    )
    assert again == STEPS and used[0] == reached
    for ours, theirs in zip(weights, uninterrupted[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_run_that_is_killed_repeats_the_steps_since_its_last_save(tmp_path, uninterrupted):
    folder = tmp_path / "run"
    with pytest.raises(Exception, match="(?i)ran out|end of sequence|insufficient|killed"):

        def die(step):
            if step == 7:
                raise RuntimeError("killed")

        run(folder, lambda start: batches_from(start, die), save_every=4)
    assert logged(folder)[-1]["step"] == 6
    starts = []

    def noting(start):
        starts.append(start)
        return batches_from(start)

    reached, weights = run(folder, noting, resume=True, save_every=4)
    assert (starts, reached) == ([4], STEPS)
    for ours, theirs in zip(weights, uninterrupted[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    # The lines of the steps that were repeated are there once.
    whole = uninterrupted[0]
    assert [(line["step"], line["loss"]) for line in logged(folder)] == [
        (line["step"], pytest.approx(line["loss"], rel=1e-6)) for line in whole
    ]


def test_a_run_that_is_complete_is_not_trained_again(tmp_path, uninterrupted):
    run(tmp_path / "run")
    reached, weights = run(tmp_path / "run", resume=True)
    assert reached == STEPS
    np.testing.assert_array_equal(weights[0], uninterrupted[1][0])


def test_a_loss_that_is_no_number_ends_the_run(tmp_path):
    def with_nan(start):
        return batches_from(start).map(lambda x, y: (x * np.nan, y))

    with pytest.raises(
        TrainingDiverged, match="loss is not a finite number .* step 2. No state was saved before"
    ):
        run(tmp_path / "run", with_nan)


@pytest.mark.parametrize("log_every", [2, 100])
def test_a_state_from_after_a_divergence_is_never_saved(tmp_path, log_every):
    def with_nan_from_seven(start):
        return (
            batches_from(start)
            .enumerate(start)
            .map(lambda step, batch: (tf.where(step < 7, batch[0], np.nan), batch[1]))
        )

    options = {"log_every": log_every, "save_every": 3}
    with pytest.raises(TrainingDiverged, match="The state saved at step 6 is from before"):
        run(tmp_path / "run", with_nan_from_seven, **options)
    starts = []

    def noting(start):
        starts.append(start)
        return batches_from(start)

    reached, weights = run(tmp_path / "run", noting, resume=True, **options)
    assert (starts, reached) == ([6], STEPS) and np.isfinite(weights[0]).all()


def test_weights_that_the_last_step_broke_are_not_saved(tmp_path):
    model = regression()

    class Breaking(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 3:  # the loss of this step was that of the weights before it
                model.layers[-1].kernel.assign(model.layers[-1].kernel * np.inf)

    fit = model.fit
    model.fit = lambda *data, callbacks, **rest: fit(
        *data, callbacks=[Breaking(), *callbacks], **rest
    )
    with pytest.raises(TrainingDiverged, match="A weight .* at step 4. The state saved at step 2"):
        run(tmp_path / "run", model=model, log_every=100, save_every=2)


def test_numbers_below_one_are_refused(tmp_path):
    with pytest.raises(ValueError, match="must be at least 1. Received: 12, 8, 0"):
        run(tmp_path / "run", log_every=0)


def test_a_stop_before_the_first_step_is_not_forgotten(tmp_path):
    def stopped_before_fit_begins(start):
        os.kill(os.getpid(), signal.SIGTERM)
        return batches_from(start)

    reached, _ = run(tmp_path / "run", stopped_before_fit_begins)
    assert reached == 1


def test_several_steps_in_a_call_are_saved_and_logged_once_an_interval(tmp_path):
    model = regression()
    model.compile(model.optimizer, loss="mse", steps_per_execution=4)
    run(tmp_path / "run", model=model, log_every=3, save_every=5)
    lines = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert [line["step"] for line in lines] == [4, 8, 12]
    saved = {path.stem for path in (tmp_path / "run" / "training").glob("*.index")}
    assert saved == {"step-8", "step-12"}


@pytest.mark.parametrize("in_a_call", [5, 7, 50])
def test_no_step_follows_the_last_whatever_the_steps_in_a_call(tmp_path, uninterrupted, in_a_call):
    """Keras 3 alone would go on to the next multiple."""
    model = regression()
    model.compile(model.optimizer, loss="mse", steps_per_execution=in_a_call)
    reached, weights = run(tmp_path / "run", model=model, log_every=100)
    assert reached == STEPS == logged(tmp_path / "run")[-1]["step"]
    for ours, theirs in zip(weights, uninterrupted[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_a_run_whose_name_is_a_pattern_leaves_others_alone_and_keeps_two_saves(tmp_path):
    for name in ("run1", "run[12]", "run?"):
        run(tmp_path / name, save_every=3)
    for name in ("run1", "run[12]", "run?"):
        folder = tmp_path / name / "training"
        assert {path.stem for path in folder.iterdir()} == {"step-9", "step-12"}
        assert run(tmp_path / name, resume=True)[0] == STEPS


def test_what_a_first_save_left_when_it_was_killed_is_no_save(tmp_path, uninterrupted):
    folder = tmp_path / "run"
    begin_run(folder, {"batch": BATCH}, resume=False)
    partial = folder / "training" / ".saving-x"
    (partial / "step-4_temp").mkdir(parents=True)
    (partial / "step-4_temp" / "part-0.tempstate").write_bytes(b"half")
    (folder / "training" / "step-4.data-00000-of-00001").write_bytes(b"its index never came")
    reached, weights = run(folder, resume=True)
    assert reached == STEPS and not partial.exists()
    for ours, theirs in zip(weights, uninterrupted[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_damaged_save_is_named_and_the_one_before_it_can_be_gone_back_to(tmp_path, uninterrupted):
    folder = tmp_path / "run"
    run(folder, save_every=5)
    (folder / "training" / "step-12.data-00000-of-00001").write_bytes(b"no data")
    with pytest.raises(
        ValueError, match=r"damaged: .*step-12 cannot be read .* Remove step-12\.\*"
    ):
        run(folder, resume=True)
    for path in (folder / "training").glob("step-12.*"):
        path.unlink()
    reached, weights = run(folder, resume=True)
    assert reached == STEPS
    for ours, theirs in zip(weights, uninterrupted[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)


TWO_REPLICAS = """
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

from albert_keras.optimizers import is_keras_3
from albert_keras.run_folder import begin_run
from albert_keras.training import train
from tests.test_training import BATCH, STEPS, batches_from, regression

weights = []
for name in ("one", "two"):
    two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    strategy = two if name == "two" else tf.distribute.get_strategy()
    with strategy.scope():
        model = regression(clip=None)
    folder = Path(sys.argv[1], name)
    begin_run(folder, {})
    train(model, batches_from, folder, total_steps=STEPS, tokens_per_step=BATCH, quiet=True)
    weights.append([weight.numpy() for weight in model.weights])
np.testing.assert_allclose(weights[1][0], weights[0][0], rtol=1e-5)
"""


def test_two_replicas_train_as_one(tmp_path):
    process = subprocess.run(
        [sys.executable, "-c", TWO_REPLICAS, str(tmp_path)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr[-2000:]


def test_only_keras_3_refuses_several_workers():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    if is_keras_3():
        with pytest.raises(ValueError, match="Keras 3 cannot train under .*MultiWorker"):
            refuse_broken_pair(strategy)
    else:
        refuse_broken_pair(strategy)
