"""Guards: what they find in logs whose story is known, and that they find nothing in others."""

import math

import numpy as np
import pytest

from albert_keras.training.guards import Collapse, LossSpikes, Plateau, SkippedInARow


def found(guard, values, name="loss", every=50):
    findings = {}
    for interval, value in enumerate(values, 1):
        finding = guard.see(interval * every, {} if value is None else {name: value})
        if finding:
            findings[interval * every] = finding
    return findings


def learning(intervals, end=4.0, noise=0.03, seed=0):
    """A loss that falls from 9 to `end`, with noise: what a run that learns logs."""
    draws = np.random.default_rng(seed).normal(0, noise, intervals)
    return [end + (9 - end) * math.exp(-i / 30) + draw for i, draw in enumerate(draws)]


@pytest.mark.parametrize("noise", [0.0, 0.03, 0.3])
def test_no_spike_is_found_in_a_run_that_learns(noise):
    for seed in range(20):
        assert not found(LossSpikes(), learning(400, noise=noise, seed=seed))


def test_a_spike_is_found_once_with_the_last_step_before_it():
    losses = learning(100) + [6.5, 7.0, 6.0, 5.5] + [4.1] * 50 + [8.0] + [4.1] * 10
    findings = found(LossSpikes(), losses)
    assert {step: finding.healthy_step for step, finding in findings.items()} == {
        5050: 5000,
        7750: 7700,
    }
    assert "the loss rose to 6.50 from 4." in findings[5050].text


def test_a_rise_within_the_noise_is_no_spike():
    noisy = list(np.random.default_rng(0).normal(4.0, 1.0, 500))
    assert not found(LossSpikes(), [*noisy, 4.0 + 3.5])
    assert list(found(LossSpikes(), [*noisy, 4.0 + 7.0])) == [501 * 50]


def test_a_level_that_lasts_is_the_new_one_and_spikes_above_it_are_found():
    losses = [4.0] * 30 + [6.0] * 40 + [8.0] + [6.0] * 5
    assert list(found(LossSpikes(), losses)) == [31 * 50, 71 * 50]


def test_an_interval_without_means_is_no_spike():
    assert list(found(LossSpikes(), [4.0] * 20 + [None, 4.0, 6.0])) == [23 * 50]


def plateau(warmup_steps=1000):
    return Collapse(Plateau("mlm_loss", 6.0, warmup_steps, "Likely causes: these."))


def test_a_run_that_leaves_the_plateau_is_not_reported():
    for seed in range(20):
        values = [loss + 1.5 for loss in learning(200, noise=0.1, seed=seed)]  # 5.5 in the end
        assert not found(plateau(), values, "mlm_loss")


def test_a_run_that_is_above_the_plateau_and_falls_is_not_reported():
    values = [8.0 - interval / 100 for interval in range(200)]
    assert not found(plateau(), values, "mlm_loss")


def test_a_run_that_stays_at_the_plateau_is_reported_once_when_it_had_the_time():
    values = [6.02 + 0.03 * (-1) ** interval for interval in range(200)]
    [(step, finding)] = found(plateau(), values, "mlm_loss").items()
    assert step == 2000 and finding.healthy_step is None and finding.kind == "collapse"
    assert "`mlm_loss` has stayed at 6.02, averaged over 500 steps, and 6.00" in finding.text
    assert finding.text.endswith("Likely causes: these.")
    # A warm-up of nothing gives a run 500 steps, and an interval may be longer than that.
    assert list(found(plateau(0), values, "mlm_loss")) == [500]
    assert list(found(plateau(), values, "mlm_loss", every=3000)) == [3000]
    assert list(found(plateau(), values * 20, "mlm_loss", every=1)) == [2000]


def test_a_run_that_falls_back_is_reported_with_the_last_step_that_was_well():
    values = [8.0] * 10 + [5.0] * 90 + [6.1] * 60 + [5.0] * 40 + [6.1] * 40
    findings = found(plateau(), values, "mlm_loss")
    assert [finding.healthy_step for finding in findings.values()] == [5000, 10_000]
    assert list(findings) == [5450, 10_450]  # when the mean of 500 steps is above 5.95
    assert "has come back to where it began, at 5.99" in findings[5450].text


def test_a_metric_that_is_missing_is_passed_over():
    values = [6.1, None] * 100
    assert list(found(plateau(), values, "mlm_loss")) == [2050]


def test_steps_in_a_row_are_counted():
    guard = SkippedInARow()
    calls = [(1, 1), (1, 1), (1, 0), (1, 1), (4, 4), (4, 3), (4, 4)]
    assert [guard.see(*call) for call in calls] == [1, 2, 0, 1, 5, 0, 4]
