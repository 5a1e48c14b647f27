"""What tasks share: intervals, optimizers by name, steps for minutes."""

import numpy as np
import pytest
import tensorflow as tf

from albert_keras import build_albert
from albert_keras.tasks.common import OPTIMIZERS, optimizer_named, steps_in, wilson_interval

pytestmark = pytest.mark.both_kerases


@pytest.mark.parametrize(("correct", "total"), [(0, 10), (1, 10), (8, 10), (10, 10), (520, 1000)])
def test_the_interval_holds_the_shares_that_a_score_test_does_not_reject(correct, total):
    low, high = wilson_interval(correct, total)
    # Wilson's interval is the set of shares p with |found - p| <= z sqrt(p (1 - p) / n).
    p = np.linspace(0, 1, 200_001)
    accepted = p[np.abs(correct / total - p) <= 1.959964 * np.sqrt(p * (1 - p) / total)]
    assert (low, high) == (
        pytest.approx(accepted.min(), abs=1e-5),
        pytest.approx(accepted.max(), abs=1e-5),
    )


def test_nothing_says_nothing():
    assert wilson_interval(0, 0) == (0.0, 1.0)


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


def test_minutes_become_steps_by_timing():
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((4, 2), np.float32)
    batches = tf.data.Dataset.from_tensors((x, x[:, :1])).repeat()
    few, many = (steps_in(minutes, model, batches) for minutes in (0.001, 1.0))
    assert 1 <= few < many
    for minutes in (0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="must be a number above 0"):
            steps_in(minutes, model, batches)
