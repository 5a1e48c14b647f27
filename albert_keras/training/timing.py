"""How long a training step takes, and so how many there are in so many minutes."""

import math
import statistics
import time

import tensorflow as tf

_TIMED_STEPS, _TIMED_CALLS = 30, 5


def steps_in(
    minutes: float, model: tf.keras.Model, batches: tf.data.Dataset, steps_per_execution: int = 1
) -> int:
    """How many training steps this machine makes in so many minutes, by timing a few of them.

    Args:
        minutes: float > 0.
        model: compiled; the timing trains it, so throw it away.
        batches: endless, as `fit` takes them.
        steps_per_execution: int > 0, what the model was compiled with. Default 1.
    """
    if not 0 < minutes < math.inf:  # NaN as well
        raise ValueError(f"`minutes` must be a number above 0. Received: {minutes}.")
    clock = StepClock()
    steps = max(_TIMED_STEPS, _TIMED_CALLS * steps_per_execution)
    # By fit, as the run itself: a call of train_on_batch also waits for the iterator it makes to
    # end, which tf.data polls at 10, 20, 40, ... ms.
    batches = batches.take(steps)  # Keras 3 goes past the end of an endless one
    model.fit(batches, steps_per_epoch=steps, callbacks=[clock], verbose=0, shuffle=False)
    # The median: the first step of every new shape compiles.
    return max(1, round(60 * minutes / statistics.median(clock.seconds)))


class StepClock(tf.keras.callbacks.Callback):
    """Keeps the seconds that a training step took, of each call of the compiled one, in `seconds`.

    With `steps_per_execution` a call has several steps, and their mean is kept.
    """

    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_train_batch_begin(self, batch, logs=None):
        self._first, self._start = batch, self._now()

    def on_train_batch_end(self, batch, logs=None):
        self.seconds.append((self._now() - self._start) / (batch - self._first + 1))

    def _now(self):
        return time.monotonic()
