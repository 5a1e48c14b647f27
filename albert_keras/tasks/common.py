"""What every task needs: a score with its interval, an optimizer by name, steps for minutes."""

import math
import statistics
import time

import tensorflow as tf

from albert_keras.optimizers import AdamW, Lamb
from albert_keras.schedule import WarmupLinearDecay

OPTIMIZERS = {"lamb": Lamb, "adamw": AdamW}
_TIMED_STEPS = 30


def wilson_interval(correct: float, total: float) -> tuple[float, float]:
    """95 % interval of a share, by Wilson's score; (0, 1) of nothing.

    Args:
        correct: how many of the examples are right.
        total: how many examples there are.

    Example:

    >>> [round(bound, 3) for bound in wilson_interval(8, 10)]
    [0.49, 0.943]

    Reference:
        Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953
    """
    if not total:
        return 0.0, 1.0
    z = 1.959964
    share, z2 = correct / total, z * z / total
    middle = share + z2 / 2
    half = z * math.sqrt(share * (1 - share) / total + z2 / (4 * total))
    return max(0.0, (middle - half) / (1 + z2)), min(1.0, (middle + half) / (1 + z2))


def optimizer_named(
    name: str, peak: float, warmup_steps: int, total_steps: int, decay: str = "from_start"
) -> tf.keras.optimizers.Optimizer:
    """An optimizer with linear warm-up and decay, weight decay 0.01 and clipping at 1.0.

    Args:
        name: "lamb" or "adamw".
        peak: float > 0, the highest learning rate.
        warmup_steps, total_steps, decay: see `WarmupLinearDecay`.

    Raises:
        ValueError: an unknown name.
    """
    schedule = WarmupLinearDecay(peak, warmup_steps, total_steps, decay)
    if name in OPTIMIZERS:
        return OPTIMIZERS[name](schedule)
    raise ValueError(f"An optimizer is one of {', '.join(OPTIMIZERS)}. Received: {name!r}.")


def steps_in(minutes: float, model: tf.keras.Model, batches: tf.data.Dataset) -> int:
    """How many training steps this machine makes in so many minutes, by timing a few of them.

    Args:
        minutes: float > 0.
        model: compiled; the timing trains it, so throw it away.
        batches: endless, as `fit` takes them.
    """
    if not 0 < minutes < math.inf:  # NaN as well
        raise ValueError(f"`minutes` must be a number above 0. Received: {minutes}.")
    clock = StepClock()
    # By fit, as the run itself: a call of train_on_batch also waits for the iterator it makes to
    # end, which tf.data polls at 10, 20, 40, ... ms.
    model.fit(batches, steps_per_epoch=_TIMED_STEPS, callbacks=[clock], verbose=0, shuffle=False)
    # The median: the first step of every new shape compiles.
    return max(1, round(60 * minutes / statistics.median(clock.seconds)))


class StepClock(tf.keras.callbacks.Callback):
    """Keeps the seconds that each training step took, in `seconds`."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_train_batch_begin(self, batch, logs=None):
        self._start = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        self.seconds.append(time.monotonic() - self._start)
