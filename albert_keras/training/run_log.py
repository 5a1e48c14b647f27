"""RunLog: what a training run writes and shows while it goes on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_keras.run_folder import EVALUATIONS, EVENTS, METRICS, TENSORBOARD
from albert_keras.training.line_log import LineLog
from albert_keras.training.progress import TrainingProgress

# What a write raises on a full disk: Python's own, and TensorFlow's.
DISK_ERRORS = OSError, tf.errors.OpError


class RunLog:
    """Writes metrics.jsonl, evaluations.jsonl, events.jsonl and TensorBoard's files.

    A disk that is full ends no run: what cannot be written waits in memory and follows when there
    is space again. That it waits is said once.

    Args:
        folder: of the run; None writes nothing, for workers other than the chief.
        progress: where messages are shown.
    """

    def __init__(self, folder: Path | None, progress: TrainingProgress):
        self._progress = progress
        self._metrics, self._evaluations, self._events = (
            None if folder is None else LineLog(folder / name)
            for name in (METRICS, EVALUATIONS, EVENTS)
        )
        self._lines = [] if folder is None else [self._metrics, self._evaluations, self._events]
        self._scalars = None if folder is None else _Scalars(folder / TENSORBOARD)
        self._waits = False

    def metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Logs the means of the interval that ends with `step`."""
        self._add(self._metrics, step, metrics, metrics)

    def evaluation(self, step: int, scores: Mapping[str, Any]) -> None:
        """Logs held-out scores; those that are numbers are `dev_...` in TensorBoard."""
        numbers = {f"dev_{key}": score for key, score in scores.items() if _is_number(score)}
        self._add(self._evaluations, step, scores, numbers)

    def event(self, step: int, kind: str, text: str, *, show: bool = True) -> None:
        """Shows and logs something that happened, such as a spike of the loss."""
        if show:
            self._progress.say(f"step {step}: {text}")
        self._add(self._events, step, {"kind": kind, "text": text}, {})

    def earlier_metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl."""
        return self._metrics.read() if self._metrics else []

    def earlier_evaluations(self) -> list[dict[str, Any]]:
        """The lines of evaluations.jsonl."""
        return self._evaluations.read() if self._evaluations else []

    def forget_after(self, step: int) -> None:
        """Drops the lines of later steps. TensorBoard's files keep them, and get them twice."""
        for lines in self._lines:
            lines.forget_after(step)

    def write(self) -> None:
        """Writes the lines that wait. Raises OSError when the disk takes no more."""
        for lines in self._lines:
            lines.write()

    def _add(self, lines, step, fields, scalars):
        if lines is None:
            return
        lines.add(step, fields)
        self._scalars.add(step, scalars)
        try:
            self.write()
            self._scalars.write()
            self._waits = False
        except DISK_ERRORS as error:
            if not self._waits:
                self._progress.say(
                    f"step {step}: the log cannot be written ({reason(error)}). Training "
                    "goes on, and what is not written waits until there is space."
                )
            self._waits = True


class _Scalars:
    """TensorBoard's event files. (Not tf.summary.scalar: that needs the tensorboard package.)"""

    def __init__(self, folder):
        self._folder, self._writer, self._waiting = folder, None, []

    def add(self, step, values):
        if values:
            self._waiting.append((step, values))

    def write(self):
        try:
            if self._writer is None:
                self._writer = tf.summary.create_file_writer(str(self._folder))
            for step, values in self._waiting:
                summary = tf.compat.v1.Summary(
                    value=[
                        tf.compat.v1.Summary.Value(tag=name, simple_value=value)
                        for name, value in values.items()
                    ]
                )
                with self._writer.as_default(step):
                    tf.summary.experimental.write_raw_pb(summary.SerializeToString())
            self._writer.flush()
        except DISK_ERRORS:
            # Its file may end in half a record, behind which nothing can be read: take another.
            self._writer = None
            raise
        self._waiting = []


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def reason(error: Exception) -> str:
    """The message of a write that failed, without TensorFlow's name of the op."""
    return str(error).partition("\n")[0].rpartition("}} ")[2]
