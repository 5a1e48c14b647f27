"""train: `model.fit` that can be stopped at any moment and goes on exactly where it stopped.

It takes a compiled model and a function that gives the batches from any step on, and knows no
task. A run is a folder; see `run_folder`.
"""

import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import tensorflow as tf

from albert_keras.backend import is_keras_3
from albert_keras.run_folder import STATE
from albert_keras.training.guards import Plateau
from albert_keras.training.interval_log import IntervalLog
from albert_keras.training.periodic_evaluation import EvaluationCallback, PeriodicEvaluation
from albert_keras.training.progress import TrainingProgress
from albert_keras.training.run_log import DISK_ERRORS, RunLog, reason
from albert_keras.training.saved_state import SavedState, TrainingDiverged
from albert_keras.training.stopping import asked_to_stop
from albert_keras.training.workers import (
    from_all_workers,
    has_several_workers,
    naming_lost_workers,
    worker_index,
)


def train(
    model: tf.keras.Model,
    batches_from: Callable[[int], tf.data.Dataset],
    folder: str | Path,
    *,
    total_steps: int,
    tokens_per_step: int,
    log_every: int = 50,
    save_every: int = 500,
    evaluation: PeriodicEvaluation | None = None,
    plateau: Plateau | None = None,
    most_skipped: int = 20,
    asked: threading.Event | None = None,
    run_steps: int | None = None,
    quiet: bool = False,
) -> int:
    """Trains to `total_steps`, from the newest saved step of the run in `folder`.

    The state is saved every `save_every` steps, at the end, and when the process is asked to stop
    (Ctrl-C, SIGTERM); a process that is killed loses the steps since the last save and repeats
    them with the same batches. Dropout masks are the one thing drawn anew. A disk that is full
    while the run goes on is reported, and the next save tried as usual.

    Of several workers (MultiWorkerMirroredStrategy) each calls it. Each has its own saves, the
    chief in training/, the others in training/worker-N; only the chief writes anything else.

    Args:
        model: compiled; its optimizer counts the steps. If its logs have `skipped_steps`, that is
            the number of steps whose gradient was not finite and which changed nothing.
        batches_from: gives the batches that follow the first k, for any k; endless.
        folder: of a run begun by `begin_run`.
        total_steps: int > 0, steps from the very start.
        tokens_per_step: int > 0, B times S, for the speed that is shown.
        log_every: int > 0, steps that a line of metrics.jsonl averages. Default 50.
        save_every: int > 0. Default 500. A save ends a line's interval as well.
        evaluation: scores on held-out data while the run goes on. Default None.
        plateau: the level at which a run has learned nothing, which is then reported. Default
            None.
        most_skipped: int > 0, skipped steps in a row that end the run. Default 20: a scaled loss
            of float16 begins at 2^15, and may be halved in each of the first 15 steps.
        asked: set when the run is to stop. Default None: by Ctrl-C and SIGTERM, as `asked_to_stop`
            gives it.
        run_steps: int, steps of the run of which this is a part, for the display. Default None:
            `total_steps`.
        quiet: show no progress. Default False.

    Returns:
        The step that was reached: less than `total_steps` if the process was asked to stop.

    Raises:
        TrainingDiverged: the loss or a weight is NaN or infinite, or too many gradients in a row
            were; such weights are never saved.
        ValueError: the run belongs to the other Keras, its saved states are damaged, or a number
            is out of its range.
        OSError: the state at the end cannot be saved.
        RuntimeError: another worker is gone.

    Example:

    >>> model.compile(Lamb(WarmupLinearDecay(1e-3, 100, 1000)))
    >>> begin_run("run", {"batch": 32})
    >>> train(model, batches_from, "run", total_steps=1000, tokens_per_step=32 * 64)
    1000
    """
    numbers = {
        "total_steps": total_steps,
        "tokens_per_step": tokens_per_step,
        "log_every": log_every,
        "save_every": save_every,
        "most_skipped": most_skipped,
    }
    if evaluation is not None:
        numbers["every"] = evaluation.every
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {number}.")
    strategy = model.distribute_strategy
    refuse_broken_pair(strategy, model.optimizer)
    worker = worker_index(strategy)
    if has_several_workers(strategy):
        model.distribute_reduction_method = "first"  # Keras 2 would add up what the workers log
    folder = Path(folder)
    saves = folder / STATE / f"worker-{worker}" if worker else folder / STATE
    state = SavedState(model, saves)
    with naming_lost_workers(strategy):
        start = state.restore()
        if start >= total_steps:
            return start
        shown = TrainingProgress(
            run_steps or total_steps, start, tokens_per_step, quiet=quiet or worker > 0
        )
        with (
            shown as progress,
            asked_to_stop() if asked is None else nullcontext(asked) as asked,
        ):
            log = RunLog(None if worker else folder, progress)
            if not start and log.earlier_metrics():
                log.event(0, "begins_again", "No state is saved: the run begins again.")
            log.forget_after(start)
            lines = log.earlier_metrics()
            if start and worker == 0 and (not lines or lines[-1]["step"] != start):
                log.event(
                    start,
                    "log_incomplete",
                    f"metrics.jsonl has no line of step {start}, whose state is saved: what was "
                    "logged last is lost. Training goes on from there.",
                )
            intervals = IntervalLog(
                log,
                progress,
                state,
                total_steps=total_steps,
                every=log_every,
                save_every=save_every,
                tokens_per_step=tokens_per_step,
                plateau=plateau,
                most_skipped=most_skipped,
            )
            callbacks = [_Stop(asked), intervals]
            if evaluation is not None:  # before the save: a saved step has been evaluated
                callbacks.append(
                    EvaluationCallback(
                        evaluation, state, log, intervals, total_steps, is_chief=worker == 0
                    )
                )
            saver = _Saver(state, log, save_every)
            callbacks += [saver, _EndOfSkipped(intervals, saver)]
            try:
                model.fit(
                    # Finite: Keras 3 would fill up the last of its `steps_per_execution`.
                    batches_from(start).take(total_steps - start),
                    epochs=1,
                    steps_per_epoch=total_steps - start,
                    callbacks=callbacks,
                    verbose=0,
                    shuffle=False,  # Keras 3 warns that it would not
                )
                saver.save_at_end()
            except TrainingDiverged as error:
                log.event(state.step, "diverged", str(error), show=False)  # as the error it is
                raise
    return state.step


def refuse_broken_pair(
    strategy: tf.distribute.Strategy, optimizer: tf.keras.optimizers.Optimizer
) -> None:
    """Raises ValueError where this Keras is known to fail with this strategy or optimizer.

    Measured with Keras 3.15: `fit` fails under MultiWorkerMirroredStrategy, and the optimizer that
    scales the loss of float16 does not count the steps that it skips, so that a run would end
    early and repeat batches. Keras 2 does both.
    """
    if not is_keras_3():
        return
    if has_several_workers(strategy):
        what = "under a MultiWorkerMirroredStrategy"
    elif hasattr(optimizer, "inner_optimizer"):
        what = "in float16 and go on exactly"
    else:
        return
    raise ValueError(
        f"Keras 3 cannot train {what}. Set TF_USE_LEGACY_KERAS=1 before TensorFlow is imported, "
        "which makes tf.keras Keras 2."
    )


class _EndOfSkipped(tf.keras.callbacks.Callback):
    """Saves and ends a run whose gradient was not finite in too many steps in a row.

    The last of the callbacks: the step that it saves has been logged and evaluated.
    """

    def __init__(self, intervals, saver):
        super().__init__()
        self._intervals, self._saver = intervals, saver

    def on_train_batch_end(self, batch, logs=None):
        if self._intervals.skipped_too_often:
            self._saver.try_to_save()  # the weights, which these steps have left as they were
            raise self._intervals.skipped_error()


class _Stop(tf.keras.callbacks.Callback):
    """Ends `fit` after the running step once `asked` is set, in any of the workers.

    `fit` clears `stop_training` when it begins, so that alone would forget an early Ctrl-C.
    """

    def __init__(self, asked):
        super().__init__()
        self._asked = asked

    def on_train_batch_end(self, batch, logs=None):
        # One worker that stops a step before the others would leave them waiting for it.
        asked = from_all_workers(self.model.distribute_strategy, [self._asked.is_set()])
        if asked.any():
            self.model.stop_training = True


class _Saver(tf.keras.callbacks.Callback):
    def __init__(self, state, log, every):
        super().__init__()
        self._state, self._log, self._every = state, log, every
        self._step = self._saved = state.step
        self._failed = 0

    def on_train_batch_end(self, batch, logs=None):
        before, self._step = self._step, self._state.step
        # Not a remainder of 0: one call stands for several steps with steps_per_execution.
        if self._step // self._every > before // self._every:
            self.try_to_save()

    def try_to_save(self):
        """Saves, or reports that the disk takes no more."""
        try:
            self._save()
        except DISK_ERRORS as error:
            self._failed += 1
            self._log.event(
                self._step,
                "save_failed",
                f"the state could not be saved ({reason(error)}; failed saves so far: "
                f"{self._failed}). {self._state.from_before(self._step)} Training goes on; free "
                "some space.",
            )

    def save_at_end(self):
        """Raises OSError, with what to do, where the disk takes no more."""
        try:
            self._save()
        except DISK_ERRORS as error:
            raise OSError(
                f"The state of step {self._state.step} could not be saved "
                f"({reason(error)}). {self._state.from_before(self._state.step)} Free some "
                "space and go on from there (--resume)."
            ) from error

    def _save(self):
        if self._saved == self._state.step:
            return
        # The lines first: those of a saved step are never written again.
        self._state.save(first=self._log.write)
        self._saved = self._state.step
