"""The learning-rate schedule."""

import json

import pytest
import tensorflow as tf

from albert_keras import WarmupLinearDecay

pytestmark = pytest.mark.both_kerases


def test_the_schedule_is_the_originals():
    schedule = WarmupLinearDecay(peak=1.76e-3, warmup_steps=3125, total_steps=125_000)
    expected = {
        0: 0.0,
        1: 1.76e-3 / 3125,
        3124: 1.76e-3 * 3124 / 3125,
        3125: 1.76e-3 * (1 - 3125 / 125_000),
        62_500: 0.88e-3,
        125_000: 0.0,
        130_000: 0.0,
    }
    for step, rate in expected.items():
        assert float(schedule(tf.constant(step, tf.int64))) == pytest.approx(rate, rel=1e-5), step


def test_a_schedule_without_warm_up_starts_at_the_peak():
    schedule = WarmupLinearDecay(peak=1.0, warmup_steps=0, total_steps=4)
    assert [float(schedule(step)) for step in range(5)] == [1, 0.75, 0.5, 0.25, 0]


def test_a_schedule_survives_json():
    schedule = WarmupLinearDecay(peak=1e-3, warmup_steps=10, total_steps=100)
    config = json.loads(json.dumps(tf.keras.optimizers.schedules.serialize(schedule)))
    again = tf.keras.optimizers.schedules.deserialize(config)
    assert type(again) is WarmupLinearDecay
    assert again.get_config() == schedule.get_config()


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda: WarmupLinearDecay(0.0, 1, 2), "`peak` must be a number above 0"),
        (lambda: WarmupLinearDecay(float("nan"), 1, 2), "`peak` must be a number above 0"),
        (lambda: WarmupLinearDecay(float("inf"), 1, 2), "`peak` must be a number above 0"),
        (lambda: WarmupLinearDecay(1.0, 3, 2), "Received: warmup_steps 3, total_steps 2"),
        (lambda: WarmupLinearDecay(1.0, 0, 0), "Received: warmup_steps 0, total_steps 0"),
    ],
)
def test_numbers_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_plain_decay_begins_at_the_peak():
    schedule = WarmupLinearDecay(1.76e-3, 3_125, 125_000, decay="from_peak")
    google = WarmupLinearDecay(1.76e-3, 3_125, 125_000)
    for step in (0, 1, 1_000, 3_124):
        assert float(schedule(step)) == float(google(step))
    expected = {3_125: 1.76e-3, 64_062.5: 0.88e-3, 125_000: 0.0, 130_000: 0.0}
    for step, rate in expected.items():
        assert float(schedule(step)) == pytest.approx(rate, rel=1e-6)
    assert float(google(3_125)) == pytest.approx(1.76e-3 * (1 - 3_125 / 125_000), rel=1e-6)


def test_an_unknown_form_of_the_decay_is_named():
    with pytest.raises(ValueError, match="`decay` must be one of from_start, from_peak"):
        WarmupLinearDecay(1e-3, 1, 10, decay="cosine")
