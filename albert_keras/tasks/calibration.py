"""Calibration: whether what is said with 80 % is right in 80 % of the cases."""

from pathlib import Path
from typing import Any

import numpy as np

from albert_keras.report.axes import BLUE, GREY, new_axes
from albert_keras.tasks.interval import wilson_interval

BINS = 10


class Calibration:
    """Counts predicted probabilities and what came true, in ten bins, of any number of them.

    Example:

    >>> calibration = Calibration()
    >>> calibration.add(np.array([0.82, 0.88, 0.31]), np.array([1, 1, 0]))
    >>> [(one["examples"], one["share"]) for one in calibration.bins()]
    [(1, 0.0), (2, 1.0)]
    """

    def __init__(self):
        self._examples, self._sums, self._true = np.zeros([3, BINS])

    def add(self, probabilities: np.ndarray, labels: np.ndarray) -> None:
        """
        Args:
            probabilities: float `(n,)` in 0..1.
            labels: `(n,)`, 1 where it came true, else 0.
        """
        bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
        for counts, weights in (
            (self._examples, None),
            (self._sums, probabilities),
            (self._true, labels),
        ):
            counts += np.bincount(bins, weights=weights, minlength=BINS)

    def bins(self) -> list[dict[str, Any]]:
        """Of each bin that has examples: `from` and `to`, its bounds; `examples`; the mean
        `probability`; the `share` that came true, and its 95 % `interval`."""
        return [
            {
                "from": number / BINS,
                "to": (number + 1) / BINS,
                "examples": int(count),
                "probability": float(total / count),
                "share": float(true / count),
                "interval": wilson_interval(true, count),
            }
            for number, (count, total, true) in enumerate(
                zip(self._examples, self._sums, self._true, strict=True)
            )
            if count
        ]

    def error(self) -> float | None:
        """Mean distance of a bin's probability from its share, by its examples; None of none.

        Reference:
            Expected calibration error: Guo et al. 2017, section 2, https://arxiv.org/abs/1706.04599
        """
        total = self._examples.sum()
        return float(np.abs(self._sums - self._true).sum() / total) if total else None


def plot_calibration(bins: list[dict[str, Any]], file: str | Path, *, of: str) -> None:
    """A reliability diagram: the share that came true over the predicted probability.

    Args:
        bins: of `Calibration`.
        file: the image to write.
        of: what came true, in the words of the axes.

    Raises:
        ImportError: matplotlib is missing.
    """
    figure, (left, right) = new_axes(2, 10, 4)
    left.plot([0, 1], [0, 1], color=GREY, linestyle="--", label="as sure as right")
    probabilities, shares = ([one[name] for one in bins] for name in ("probability", "share"))
    away = [
        [one["share"] - one["interval"][0] for one in bins],
        [one["interval"][1] - one["share"] for one in bins],
    ]
    left.errorbar(
        probabilities, shares, yerr=np.maximum(away, 0), fmt="o-", color=BLUE, capsize=3,
        label="95 % intervals",
    )  # fmt: skip
    left.set(xlabel=f"predicted probability: {of}", ylabel=f"share {of}", xlim=(0, 1), ylim=(0, 1))
    left.legend(frameon=False, loc="upper left")
    right.bar(
        [one["from"] for one in bins],
        [one["examples"] for one in bins],
        width=[one["to"] - one["from"] for one in bins],
        align="edge",
        color=BLUE,
        edgecolor="white",
    )
    right.set(xlabel=f"predicted probability: {of}", ylabel="examples", xlim=(0, 1))
    figure.savefig(file, dpi=130)
