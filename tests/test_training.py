"""train: stopping it at any moment changes nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.backend import is_keras_3
from albert_keras.training.loop import refuse_broken_pair
from tests.regression_run import STEPS, assert_same_weights, batches_from, lines, regression, run

pytestmark = pytest.mark.both_kerases


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
    assert_same_weights(weights, uninterrupted[1])


def test_a_run_that_is_killed_repeats_the_steps_since_its_last_save(tmp_path, uninterrupted):
    folder = tmp_path / "run"
    with pytest.raises(Exception, match="(?i)ran out|end of sequence|insufficient|killed"):

        def die(step):
            if step == 7:
                raise RuntimeError("killed")

        run(folder, lambda start: batches_from(start, die), save_every=4)
    assert lines(folder)[-1]["step"] == 6
    starts = []

    def noting(start):
        starts.append(start)
        return batches_from(start)

    reached, weights = run(folder, noting, resume=True, save_every=4)
    assert (starts, reached) == ([4], STEPS)
    assert_same_weights(weights, uninterrupted[1])
    # The lines of the steps that were repeated are there once.
    assert [(line["step"], line["loss"]) for line in lines(folder)] == [
        (line["step"], line["loss"]) for line in uninterrupted[0]
    ]


def killed_at(step_of_death):
    def die(step):
        if step == step_of_death:
            raise RuntimeError("killed")

    return lambda start: batches_from(start, die)


def test_a_save_between_two_lines_changes_no_line_of_a_run_that_goes_on(tmp_path):
    options = {"log_every": 5, "save_every": 3}
    run(tmp_path / "whole", **options)
    with pytest.raises(Exception, match="(?i)ran out|end of sequence|insufficient|killed"):
        run(tmp_path / "run", killed_at(8), **options)  # the save is of step 6 or 3, 5 was logged
    run(tmp_path / "run", resume=True, **options)
    ours, whole = (
        [(line["step"], line["loss"]) for line in lines(tmp_path / name)]
        for name in ("run", "whole")
    )
    assert ours == whole and [step for step, _ in ours] == [3, 5, 6, 9, 10, 12]


def test_a_run_that_lost_its_saves_says_that_it_begins_again(tmp_path):
    run(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "training")
    run(tmp_path / "run", resume=True)
    [event] = lines(tmp_path / "run", "events.jsonl")
    assert (event["step"], event["kind"]) == (0, "begins_again")
    assert len(lines(tmp_path / "run")) == STEPS // 2


def test_a_saved_step_without_its_line_in_the_log_is_told_of(tmp_path):
    run(tmp_path / "run", save_every=3)
    log = tmp_path / "run" / "metrics.jsonl"
    for save in (tmp_path / "run" / "training").glob("step-12*"):
        save.unlink()
    kept = [line for line in log.read_text().splitlines(True) if json.loads(line)["step"] <= 9]
    log.write_text("".join(kept)[:-10])  # step 9 is half there, and its state is saved
    reached, _ = run(tmp_path / "run", save_every=3, resume=True)
    assert reached == STEPS
    events = [json.loads(x) for x in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert [event["kind"] for event in events] == ["log_incomplete"]
    assert "no line of step 9" in events[0]["text"]


def test_a_run_of_several_steps_in_a_call_goes_on_to_the_bit(tmp_path):
    def trained(folder, batches, resume=False):
        model = regression()
        model.compile(model.optimizer, loss="mse", steps_per_execution=4)
        return run(folder, batches, resume, model, log_every=4, save_every=4)[1]

    def die(step):
        if step == 9:
            raise RuntimeError("killed")

    whole = trained(tmp_path / "whole", batches_from)
    with pytest.raises(Exception, match="(?i)ran out|end of sequence|insufficient|killed"):
        trained(tmp_path / "run", lambda start: batches_from(start, die))
    assert_same_weights(trained(tmp_path / "run", batches_from, resume=True), whole)
    assert [(line["step"], line["loss"]) for line in lines(tmp_path / "run")] == [
        (line["step"], line["loss"]) for line in lines(tmp_path / "whole")
    ]


def test_a_run_that_is_complete_is_not_trained_again(tmp_path, uninterrupted):
    run(tmp_path / "run")
    reached, weights = run(tmp_path / "run", resume=True)
    assert reached == STEPS
    np.testing.assert_array_equal(weights[0], uninterrupted[1][0])


@pytest.mark.parametrize("name", ["log_every", "save_every", "most_skipped"])
def test_numbers_below_one_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"`{name}` must be at least 1. Received: 0"):
        run(tmp_path / "run", **{name: 0})


def test_a_stop_before_the_first_step_is_not_forgotten(tmp_path):
    def stopped_before_fit_begins(start):
        os.kill(os.getpid(), signal.SIGTERM)
        return batches_from(start)

    reached, _ = run(tmp_path / "run", stopped_before_fit_begins)
    assert reached == 1


@pytest.mark.parametrize("in_a_call", [5, 7, 50])
def test_no_step_follows_the_last_whatever_the_steps_in_a_call(tmp_path, uninterrupted, in_a_call):
    """Keras 3 alone would go on to the next multiple."""
    model = regression()
    model.compile(model.optimizer, loss="mse", steps_per_execution=in_a_call)
    reached, weights = run(tmp_path / "run", model=model, log_every=100)
    assert reached == STEPS == lines(tmp_path / "run")[-1]["step"]
    for ours, theirs in zip(weights, uninterrupted[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


TWO_REPLICAS = """
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

from tests.regression_run import regression, run

weights = []
for name in ("one", "two"):
    two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    strategy = two if name == "two" else tf.distribute.get_strategy()
    with strategy.scope():
        model = regression(clip=None)
    weights.append(run(Path(sys.argv[1], name), model=model)[1])
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
            refuse_broken_pair(strategy, tf.keras.optimizers.SGD())
    else:
        refuse_broken_pair(strategy, tf.keras.optimizers.SGD())


def test_only_keras_3_refuses_to_scale_the_loss(tmp_path):
    model = regression(clip=None)
    model.compile(tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD()), "mse")
    if is_keras_3():
        with pytest.raises(ValueError, match="Keras 3 cannot train in float16"):
            run(tmp_path / "run", model=model)
        assert not (tmp_path / "run" / "training").exists()
    else:
        run(tmp_path / "run", model=model)
