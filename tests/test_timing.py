"""Steps for minutes, and the clock that tells them."""

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.training.timing import StepClock, steps_in

pytestmark = pytest.mark.both_kerases


def regression(steps_per_execution=1):
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=steps_per_execution)
    x = np.ones((4, 2), np.float32)
    return model, tf.data.Dataset.from_tensors((x, x[:, :1])).repeat()


@pytest.mark.parametrize("steps_per_execution", [1, 50])
def test_minutes_become_steps_by_timing(monkeypatch, steps_per_execution):
    model, batches = regression(steps_per_execution)
    monkeypatch.setattr(StepClock, "_now", ticking())
    # A call takes a second, by that clock.
    assert steps_in(0.5, model, batches, steps_per_execution) == 30 * steps_per_execution


def ticking():
    """A clock that goes on by a second from the begin of a call to its end, and by none else."""
    seconds = iter(np.repeat(np.arange(1_000), 2)[1:].tolist())
    return lambda clock: next(seconds)


def test_no_minutes_are_refused():
    for minutes in (0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="must be a number above 0"):
            steps_in(minutes, *regression())
