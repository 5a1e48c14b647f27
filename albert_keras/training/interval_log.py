"""IntervalLog: the means of every interval of training, and what the guards make of them."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from albert_keras.training.guards import Collapse, LossSpikes, Plateau, SkippedInARow
from albert_keras.training.progress import TrainingProgress
from albert_keras.training.run_log import RunLog
from albert_keras.training.saved_state import SavedState, TrainingDiverged


class IntervalLog(tf.keras.callbacks.Callback):
    """Writes the mean of each interval's metrics, then starts them afresh.

    Every line goes to the guards, which are given the lines of a run that goes on as well. The
    metric `skipped_steps`, of a model that has it, is a sum: of the steps whose gradient was not
    finite and which changed nothing. An interval of such steps alone has no means, and one without
    any pair has no mean of pairs and no loss, which is the sum of both.

    Args:
        log: where the lines go, with those up to the step that the run begins with.
        progress: shows each step and each interval.
        state: of the run.
        total_steps: int, the last step.
        every: int > 0, steps of an interval.
        save_every: int > 0, steps between two saves. Each ends an interval, so that a run that goes
            on from it logs the same lines.
        tokens_per_step: int > 0.
        plateau: see `train`.
        most_skipped: see `train`.
    """

    def __init__(
        self,
        log: RunLog,
        progress: TrainingProgress,
        state: SavedState,
        *,
        total_steps: int,
        every: int,
        save_every: int,
        tokens_per_step: int,
        plateau: Plateau | None,
        most_skipped: int,
    ):
        super().__init__()
        self._log, self._progress, self._state = log, progress, state
        self._total_steps, self._ends = total_steps, (every, save_every)
        self._tokens_per_step, self._most_skipped = tokens_per_step, most_skipped
        self._guards = [LossSpikes()] + ([Collapse(plateau)] if plateau else [])
        for line in log.earlier_metrics():
            self._findings(line["step"], line)
        self._in_a_row = SkippedInARow()
        self._skipped = 0  # of the interval

    def on_train_begin(self, logs=None):
        self._since, self._step = time.monotonic(), self._state.step
        self._logged = self._step

    def on_train_batch_end(self, batch, logs=None):
        before, self._step = self._step, self._state.step
        skipped_before, self._skipped = self._skipped, round(float(logs.get("skipped_steps", 0)))
        self._in_a_row.see(self._step - before, self._skipped - skipped_before)
        ended = self.model.stop_training or self._step == self._total_steps
        ended |= any(self._step // every > before // every for every in self._ends)
        if not ended and not self.skipped_too_often:
            self._progress.advance(self._step)
            return
        metrics = self._metrics(logs)
        self._log.metrics(self._step, metrics)
        self._progress.advance(self._step, metrics)
        for finding in self._findings(self._step, metrics):
            saved = self._state.from_before(finding.healthy_step)
            self._log.event(self._step, finding.kind, f"{finding.text} {saved}")
        self._logged, self._skipped = self._step, 0
        self.model.reset_metrics()

    @property
    def skipped_too_often(self) -> bool:
        """Whether the last steps in a row were skipped, as many as `most_skipped`."""
        return self._in_a_row.steps >= self._most_skipped

    def skipped_error(self) -> TrainingDiverged:
        """The error that says so, and what there is to go back to."""
        return TrainingDiverged(
            f"The gradient was not finite in {self._in_a_row.steps} steps in a row, up to step "
            f"{self._step}; they changed nothing, so what is saved at step {self._step} are the "
            f"weights of step {self._step - self._in_a_row.steps}. Likely "
            "causes: a learning rate that is too high for the batch, or a warm-up that is too "
            "short; float16 without loss scaling; data with numbers that are not finite. A run "
            "that goes on (--resume) has the same weights and the batches that follow; if it stops "
            "again, begin a new one with a lower learning rate or a longer warm-up."
        )

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves the block's time out of the speed."""
        began = time.monotonic()
        yield
        self._since += time.monotonic() - began

    def _metrics(self, logs):
        metrics = {name: float(value) for name, value in logs.items()}
        if "skipped_steps" in metrics:
            metrics["skipped_steps"] = self._skipped
            if self._skipped >= self._step - self._logged:
                metrics = {"skipped_steps": self._skipped}
        empty = self._without_weight()
        if empty:  # pairs, of a corpus that has few: their mean would be 0, and the loss a part
            metrics = {n: v for n, v in metrics.items() if n not in {*empty, "loss"}}
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise self._state.diverged(name)
        now = time.monotonic()
        tokens = (self._step - self._logged) * self._tokens_per_step
        metrics["learning_rate"] = last_learning_rate(self.model.optimizer)
        metrics["tokens_per_second"] = tokens / (now - self._since)
        self._since = now
        return metrics

    def _without_weight(self):
        return [
            metric.name
            for metric in self.model.metrics
            if isinstance(metric, tf.keras.metrics.Mean) and not float(metric.count.numpy())
        ]

    def _findings(self, step, metrics):
        return [found for guard in self._guards if (found := guard.see(step, metrics))]


def last_learning_rate(optimizer: tf.keras.optimizers.Optimizer) -> float:
    """The rate of the optimizer's last step.

    From its config: read directly, a schedule gives the last step's rate on Keras 2 and the next
    step's on Keras 3.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a loss-scaling one
    rate = optimizer.get_config()["learning_rate"]
    if isinstance(rate, dict):
        rate = tf.keras.optimizers.schedules.deserialize(rate)(optimizer.iterations - 1)
    return float(rate)
