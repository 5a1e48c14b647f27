"""The matrix-multiply floor of a training step, the batch that every library gets, and its line.

Imports TensorFlow only to measure its product: one of the peers runs without it.
"""

import resource

import numpy as np

from albert_keras.analysis.floor import PRODUCT, product_flops_per_second
from albert_keras.analysis.flops import forward_flops
from albert_keras.analysis.random_batch import random_batch
from albert_keras.config import PRESETS

__all__ = ["PRODUCT", "product_flops_per_second", "random_batch", "step_flops", "step_line"]


def step_flops(batch: int, length: int, predictions: int) -> int:
    """Matrix products of one training step: two backwards for each one forwards."""
    return 3 * batch * sum(forward_flops(PRESETS["base"], length, predictions).values())


def step_line(benchmark: str, arguments, seconds: list[float], first: float, floor: float) -> dict:
    """What the line of every library says of its steps; to be made as soon as they have ended.

    Args:
        benchmark: its name.
        arguments: with `shape`, rows x length, and `policy`.
        seconds: of the steps.
        first: seconds of the first step, which compiles.
        floor: seconds of the step's products.
    """
    rows, length = map(int, arguments.shape.split("x"))
    return {
        "benchmark": benchmark,
        "shape": arguments.shape,
        "policy": arguments.policy,
        "seconds": [round(one, 3) for one in seconds],
        "step_seconds": [round(f(seconds), 3) for f in (np.median, min, max)],
        "floor_seconds": round(floor, 3),
        "floor_fraction": round(floor / np.median(seconds), 3),
        "best_floor_fraction": round(floor / min(seconds), 3),
        "tokens_per_second": round(rows * length / np.median(seconds)),
        "first_step_seconds": round(first, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
