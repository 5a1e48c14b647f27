"""WarmupLinearDecay: the learning-rate schedule that ALBERT was trained with."""

import math

import tensorflow as tf

DECAYS = "from_start", "from_peak"


@tf.keras.utils.register_keras_serializable(package="albert_keras")
class WarmupLinearDecay(tf.keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then linear decay to 0.

    The warm-up is peak * step / warmup_steps, so the first step has rate 0. After it there are two
    forms of the decay:

        from_start    peak * (1 - step / total_steps), as the original ALBERT code has it: it counts
                      from step 0, so the rate drops at the end of the warm-up and never reaches the
                      peak. At step 3,125 of 125,000 a peak of 1.76e-3 gives 1.716e-3.
        from_peak     peak * (total_steps - step) / (total_steps - warmup_steps), as BERT's later
                      code and Hugging Face have it: from the peak, without a drop.

    Args:
        peak: float > 0.
        warmup_steps: int >= 0, steps of the warm-up.
        total_steps: int > 0, the step at which the rate is 0; at least `warmup_steps`.
        decay: "from_start" or "from_peak". Default "from_start".

    Raises:
        ValueError: numbers outside these ranges, or an unknown form.

    Example:

    >>> schedule = WarmupLinearDecay(peak=1e-3, warmup_steps=10, total_steps=100)
    >>> [round(float(schedule(step)), 6) for step in (0, 5, 10, 50, 100)]
    [0.0, 0.0005, 0.0009, 0.0005, 0.0]
    >>> schedule = WarmupLinearDecay(peak=1e-3, warmup_steps=10, total_steps=100, decay="from_peak")
    >>> [round(float(schedule(step)), 6) for step in (0, 5, 10, 55, 100)]
    [0.0, 0.0005, 0.001, 0.0005, 0.0]

    Reference:
        https://github.com/google-research/albert, optimization.py; ALBERT, appendix A.1
    """

    def __init__(self, peak, warmup_steps, total_steps, decay="from_start"):
        super().__init__()
        if not 0 < peak < math.inf:  # NaN as well
            raise ValueError(f"`peak` must be a number above 0. Received: {peak}.")
        if not 0 <= warmup_steps <= total_steps or total_steps < 1:
            raise ValueError(
                "`warmup_steps` must lie between 0 and `total_steps`, and that be at least 1. "
                f"Received: warmup_steps {warmup_steps}, total_steps {total_steps}."
            )
        if decay not in DECAYS:
            raise ValueError(f"`decay` must be one of {', '.join(DECAYS)}. Received: {decay!r}.")
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps
        self.decay = decay

    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        warmup = self.peak * step / max(self.warmup_steps, 1)
        if self.decay == "from_start":
            left = 1 - step / self.total_steps
        else:
            left = (self.total_steps - step) / max(self.total_steps - self.warmup_steps, 1)
        return tf.where(step < self.warmup_steps, warmup, self.peak * tf.maximum(left, 0))

    def get_config(self):
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
            "decay": self.decay,
        }
