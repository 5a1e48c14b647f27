"""The interval of a share."""

import numpy as np
import pytest

from albert_keras.tasks.interval import wilson_interval


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
