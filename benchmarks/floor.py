"""The matrix-multiply floor of a training step, and the batch that every library gets.

Imports TensorFlow only to measure its product: one of the peers runs without it.
"""

from albert_keras.analysis.floor import product_flops_per_second
from albert_keras.analysis.flops import forward_flops
from albert_keras.analysis.random_batch import random_batch
from albert_keras.config import PRESETS

__all__ = ["product_flops_per_second", "random_batch", "step_flops"]


def step_flops(batch: int, length: int, predictions: int) -> int:
    """Matrix products of one training step: two backwards for each one forwards."""
    return 3 * batch * sum(forward_flops(PRESETS["base"], length, predictions).values())
