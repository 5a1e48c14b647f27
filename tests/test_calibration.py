import numpy as np
import pytest

from albert_keras.tasks.calibration import Calibration, plot_calibration
from albert_keras.tasks.interval import wilson_interval


def drawn():
    rng = np.random.default_rng(0)
    probabilities = np.concatenate([rng.random(500) ** 2, [0.0, 0.1, 1.0, 0.999999]])
    return probabilities, (rng.random(504) < probabilities).astype(int)


def test_bins_count_what_a_loop_counts():
    probabilities, labels = drawn()
    calibration = Calibration()
    for part in (slice(0, 100), slice(100, 101), slice(101, 101), slice(101, None)):
        calibration.add(probabilities[part], labels[part])
    bins = calibration.bins()
    assert sum(one["examples"] for one in bins) == 504
    for one in bins:
        last = one["to"] == 1.0
        inside = [
            (p, label)
            for p, label in zip(probabilities, labels, strict=True)
            if one["from"] <= p and (p < one["to"] or last)
        ]
        assert one["examples"] == len(inside)
        assert one["probability"] == pytest.approx(np.mean([p for p, _ in inside]))
        assert one["share"] == pytest.approx(np.mean([label for _, label in inside]))
        assert one["interval"] == wilson_interval(sum(label for _, label in inside), len(inside))
    error = sum(one["examples"] * abs(one["probability"] - one["share"]) for one in bins) / 504
    assert calibration.error() == pytest.approx(error)


def test_nothing_has_no_bins_and_no_error():
    assert Calibration().bins() == [] and Calibration().error() is None


@pytest.mark.parametrize("examples", [504, 1, 0])
def test_the_plot_is_an_image(tmp_path, examples):
    pytest.importorskip("matplotlib")
    calibration = Calibration()
    calibration.add(*(values[:examples] for values in drawn()))
    plot_calibration(calibration.bins(), tmp_path / "plot.png", of="in order")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
