"""IntervalLog: the means of every interval, and what is found in them."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.training.guards import Plateau
from albert_keras.training.saved_state import TrainingDiverged
from tests.regression_run import (
    BATCH,
    STEPS,
    WIDTH,
    batches_from,
    lines,
    regression,
    run,
    with_nan_in,
)

pytestmark = pytest.mark.both_kerases


class SkippingRegression(tf.keras.Model):
    """Leaves weights as they are in a step whose gradient is not finite, and counts it."""

    def __init__(self):
        super().__init__()
        tf.keras.utils.set_random_seed(3)
        self.dense = tf.keras.layers.Dense(1)
        self.mean = tf.keras.metrics.Mean(name="loss")
        self.skipped_steps = tf.keras.metrics.Sum(name="skipped_steps")
        self.build((None, WIDTH))

    @property
    def metrics(self):
        return [self.mean, self.skipped_steps]

    def build(self, shape):
        self.dense.build(shape)
        super().build(shape)

    def call(self, x):
        return self.dense(x)

    def train_step(self, batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(batch[0]) - batch[1]) ** 2)
        skipped = tf.logical_not(tf.math.is_finite(loss))
        gradients = tape.gradient(loss, self.trainable_variables)
        gradients = [tf.where(skipped, 0.0, gradient) for gradient in gradients]
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        taken = 1.0 - tf.cast(skipped, tf.float32)
        self.mean.update_state(tf.where(skipped, 0.0, loss), taken)
        self.skipped_steps.update_state(1.0 - taken)
        return {metric.name: metric.result() for metric in self.metrics}


def skipping(steps_per_execution=1):
    model = SkippingRegression()
    model.compile(tf.keras.optimizers.SGD(0.05), steps_per_execution=steps_per_execution)
    return model


def test_a_run_logs_the_mean_of_every_interval(uninterrupted):
    logged, _ = uninterrupted
    assert [line["step"] for line in logged] == [2, 4, 6, 8, 10, 12]
    assert set(logged[0]) == {"step", "loss", "learning_rate", "tokens_per_second"}
    # By hand: the first step's rate is 0, so both losses of the first interval are known.
    model = regression()
    kernel, bias = (weight.numpy() for weight in model.weights)
    losses = []
    for step in (0, 1):
        (x, y) = next(iter(batches_from(step)))
        losses.append(np.mean((x @ kernel + bias - y) ** 2))
    assert logged[0]["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert logged[0]["learning_rate"] == pytest.approx(
        0.05 * 1 / 2
    )  # of the second step, in the warm-up
    assert logged[-1]["loss"] < logged[0]["loss"]


def test_several_steps_in_a_call_are_saved_and_logged_once_an_interval(tmp_path):
    model = regression()
    model.compile(model.optimizer, loss="mse", steps_per_execution=4)
    run(tmp_path / "run", model=model, log_every=3, save_every=5)
    assert [line["step"] for line in lines(tmp_path / "run")] == [4, 8, 12]
    saved = {path.stem for path in (tmp_path / "run" / "training").glob("*.index")}
    assert saved == {"step-8", "step-12"}


def test_a_loss_that_is_no_number_ends_the_run(tmp_path):
    with pytest.raises(
        TrainingDiverged,
        match="loss is not a finite number .* step 2. No saved state is from before",
    ):
        run(tmp_path / "run", with_nan_in(range(STEPS)))
    [event] = lines(tmp_path / "run", "events.jsonl")
    assert (event["step"], event["kind"]) == (2, "diverged")


def test_skipped_steps_are_counted_and_an_interval_of_them_alone_has_no_means(tmp_path):
    reached, weights = run(
        tmp_path / "run", with_nan_in([2, 5, 6, 7]), model=skipping(), log_every=2
    )
    logged = lines(tmp_path / "run")
    assert reached == STEPS and np.isfinite(weights[0]).all()
    assert [line["skipped_steps"] for line in logged] == [0, 1, 1, 2, 0, 0]
    assert ["loss" in line for line in logged] == [True, True, True, False, True, True]
    # The batches of the others alone, by hand.
    kernel, bias = (weight.numpy() for weight in skipping().dense.weights)
    for step in range(STEPS):
        x, y = (part.numpy() for part in next(iter(batches_from(step))))
        error = x @ kernel + bias - y
        if step not in (2, 5, 6, 7):
            kernel, bias = kernel - 0.1 * x.T @ error / BATCH, bias - 0.1 * error.mean(axis=0)
    np.testing.assert_allclose(weights[0], kernel, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("in_a_call", "stops_at"), [(1, 8), (4, 12)])
def test_many_skipped_steps_in_a_row_end_the_run_with_its_weights_saved(
    tmp_path, in_a_call, stops_at
):
    # Steps 5 to 12: with four in a call, the first call without a good step is that of 5 to 8.
    options = {"save_every": 100, "log_every": 3, "most_skipped": 4 if in_a_call == 1 else 8}
    with pytest.raises(
        TrainingDiverged,
        match=f"not finite in {options['most_skipped']} steps in a row, up to step {stops_at};"
        f".*saved at step {stops_at} are the weights of step {stops_at - options['most_skipped']}"
        ".*--resume",
    ):
        run(tmp_path / "run", with_nan_in(range(4, 20)), model=skipping(in_a_call), **options)
    logged = lines(tmp_path / "run")
    assert logged[-1]["step"] == stops_at
    assert sum(line["skipped_steps"] for line in logged) == options["most_skipped"]
    # Going on is going on with the weights from before, and with the batches that follow.
    model = skipping()
    if stops_at < STEPS:
        reached, _ = run(tmp_path / "run", model=model, resume=True)
        assert reached == STEPS


def test_too_few_in_a_row_end_nothing(tmp_path):
    reached, _ = run(tmp_path / "run", with_nan_in([0, 1, 2, 4, 5, 6, 8]), model=skipping(),
                     most_skipped=4)  # fmt: skip
    assert reached == STEPS


def spiking(start):
    """The batches, but the answers of number 30 are a thousand times as large."""
    numbered = batches_from(start).enumerate(start)
    return numbered.map(
        lambda step, batch: (batch[0], tf.where(step == 30, 1000.0, 1.0) * batch[1])
    )


def test_a_spike_is_shown_and_logged_with_the_save_from_before_it_and_the_run_goes_on(
    tmp_path, capfd
):
    options = {"total_steps": 40, "log_every": 1, "save_every": 10, "quiet": False}
    reached, _ = run(tmp_path / "run", spiking, **options)
    [event] = lines(tmp_path / "run", "events.jsonl")
    assert reached == 40 and (event["step"], event["kind"]) == (31, "loss_spike")
    assert "The state saved at step 30 is from before." in event["text"]
    assert f"step 31: {event['text']}" in capfd.readouterr().err


def test_a_resumed_run_finds_what_the_whole_run_finds(tmp_path):
    options = {"log_every": 1, "save_every": 10}
    run(tmp_path / "run", spiking, total_steps=25, **options)
    run(tmp_path / "run", spiking, total_steps=40, resume=True, **options)
    [event] = lines(tmp_path / "run", "events.jsonl")
    run(tmp_path / "whole", spiking, total_steps=40, **options)
    [whole] = lines(tmp_path / "whole", "events.jsonl")
    assert event == whole


def test_a_run_that_stays_at_its_plateau_is_named(tmp_path):
    def the_first_again_and_again(start):
        return batches_from(0).take(1).cache().repeat()

    level = Plateau("loss", -1.0, 0, "Likely causes: a rate of 0.")
    options = {
        "total_steps": 900,
        "log_every": 300,
        "save_every": 900,
    }  # the rate is 0 from step 12 on
    for name, plateau in (("above", level), ("below", level._replace(value=99.0))):
        run(tmp_path / name, the_first_again_and_again, plateau=plateau, **options)
    [event] = lines(tmp_path / "above", "events.jsonl")
    # At 600 if the first interval was no more than 0.05 above the second.
    assert event["step"] in (600, 900) and event["kind"] == "collapse"
    assert "Likely causes: a rate of 0. No saved state is from before." in event["text"]
    assert lines(tmp_path / "below", "events.jsonl") == []


def test_the_metrics_of_a_line_are_json_that_others_can_read(uninterrupted):
    for line in uninterrupted[0]:
        assert json.loads(json.dumps(line, allow_nan=False)) == line
        assert all(math.isfinite(value) for value in line.values())
