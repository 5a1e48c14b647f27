"""Numbers as a page shows them, and the round numbers of an axis."""

import math
import random

import pytest

from albert_keras.report.figures import duration, large, nice_ticks, plain, tick_labels


@pytest.mark.parametrize(
    "number,shown",
    [
        (0, ("0", "")),
        (999_400, ("999,400", "")),
        (999_600, ("1", "million")),
        (83_908_608, ("83.9", "million")),
        (999_600_000, ("1", "billion")),
        (2.5e14, ("250", "trillion")),
    ],
)
def test_large_numbers_have_three_digits_and_a_unit(number, shown):
    assert large(number) == shown


@pytest.mark.parametrize(
    "seconds,shown",
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (352, "5 min 52 s"),
        (3599.6, "1 h 0 min"),
        (86_399, "1 d 0 h"),
        (277_200, "3 d 5 h"),
    ],
)
def test_durations_have_two_units_and_round_up_into_the_next(seconds, shown):
    assert duration(seconds) == shown


def test_settings_keep_their_digits():
    shown = [plain(value) for value in (0.00176, 1e-12, 125_000, 0.0, -3, 2.5)]
    assert shown == ["0.00176", "1e-12", "125,000", "0", "-3", "2.5"]


def test_ticks_enclose_the_values_in_few_even_round_steps():
    draws = random.Random(0)
    for _ in range(2000):
        low = draws.uniform(-1, 1) * 10 ** draws.uniform(-9, 9)
        high = low + 10 ** draws.uniform(-6, 3) * abs(low)
        ticks = nice_ticks(low, high, 6)
        size = ticks[1] - ticks[0]
        assert 2 <= len(ticks) <= 7
        assert ticks[0] <= low + 1e-6 * size and high - 1e-6 * size <= ticks[-1]
        assert all(
            b - a == pytest.approx(size, rel=1e-6) for a, b in zip(ticks, ticks[1:], strict=False)
        )
        mantissa = size / 10 ** math.floor(math.log10(size) + 1e-9)
        assert min(abs(mantissa - nice) for nice in (1, 2, 5)) < 1e-6


@pytest.mark.parametrize("value", [0.0, 6.027, -3.0, 1e-9, 5e8])
def test_a_curve_of_one_value_has_an_axis_around_it(value):
    ticks = nice_ticks(value, value, 6)
    assert ticks[0] < value < ticks[-1]


@pytest.mark.parametrize(
    "ticks,labels",
    [
        ([1.0, 1.2, 1.4], ["1.0", "1.2", "1.4"]),
        ([0, 1000, 5000], ["0", "1,000", "5,000"]),
        ([0, 5000, 10_000], ["0", "5k", "10k"]),
        ([0, 500_000, 1_000_000], ["0.0", "0.5M", "1.0M"]),
        ([0, 0.0005, 0.001], ["0.0000", "0.0005", "0.0010"]),
    ],
)
def test_the_labels_of_an_axis_have_one_unit_and_equal_decimals(ticks, labels):
    assert tick_labels(ticks) == labels
