"""PeriodicEvaluation: held-out scores while a run goes on, and the best model so far."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from albert_keras.training.interval_log import IntervalLog
from albert_keras.training.run_log import DISK_ERRORS, RunLog, reason
from albert_keras.training.saved_state import SavedState


class PeriodicEvaluation(NamedTuple):
    """How a run is scored on held-out data while it goes on.

    Args:
        scores: takes nothing and gives a dict that JSON can hold. It must leave the compiled
            model's metrics alone, so no `model.evaluate`. With several workers, all of them call
            it.
        every: int > 0, steps. It is also called at the last step.
        best_by: the score by which the best model is judged.
        on_best: takes (step, scores) and keeps the model; when it fails for want of space on the
            disk, the best so far stays the best.
        highest: whether the highest score is best. Default False: the lowest.
        kept: the scores of the model that is kept already. After a kill it can be of a step that
            the run makes again, and the log says nothing of it. Default None: what the log says.
    """

    scores: Callable[[], Mapping[str, Any]]
    every: int
    best_by: str
    on_best: Callable[[int, Mapping[str, Any]], None]
    highest: bool = False
    kept: Mapping[str, Any] | None = None


class EvaluationCallback(tf.keras.callbacks.Callback):
    """Calls a `PeriodicEvaluation` in `fit`.

    What was best before is read from the log, so a run that is killed goes on with it. The model
    is kept before the log has its line: a step whose line is there has been kept.

    Args:
        evaluation: what to call.
        state: of the run.
        log: of the run, with the lines up to the step that it begins with.
        intervals: whose speed leaves the evaluations out.
        total_steps: int, the last step.
        is_chief: whether this worker keeps the best model.
    """

    def __init__(
        self,
        evaluation: PeriodicEvaluation,
        state: SavedState,
        log: RunLog,
        intervals: IntervalLog,
        total_steps: int,
        is_chief: bool,
    ):
        super().__init__()
        self._evaluation, self._state, self._log = evaluation, state, log
        self._intervals, self._total_steps, self._is_chief = intervals, total_steps, is_chief
        self._step = state.step
        earlier = [line for line in log.earlier_evaluations() if line.get("best")]
        kept = evaluation.kept or (earlier[-1] if earlier else None)
        self._best = None if kept is None else kept[evaluation.best_by]

    def on_train_batch_end(self, batch, logs=None):
        before, self._step = self._step, self._state.step
        every = self._evaluation.every
        if self._step // every > before // every or self._step == self._total_steps:
            with self._intervals.paused():
                self._evaluate()

    def _evaluate(self):
        scores, name = dict(self._evaluation.scores()), self._evaluation.best_by
        if name not in scores:
            raise ValueError(
                f"`best_by` must be one of the scores {', '.join(scores)}. Received: {name!r}."
            )
        is_best = self._is_better(scores[name])
        if is_best and self._is_chief:
            try:
                self._evaluation.on_best(self._step, scores)
            except DISK_ERRORS as error:
                is_best = False
                self._log.event(
                    self._step,
                    "best_not_kept",
                    f"the model is the best so far and could not be kept ({reason(error)}). "
                    "Training goes on.",
                )
        if is_best:
            self._best = scores[name]
        self._log.evaluation(self._step, {**scores, "best": is_best})

    def _is_better(self, score):
        if self._best is None:
            return math.isfinite(score)
        return score > self._best if self._evaluation.highest else score < self._best
