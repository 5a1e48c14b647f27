"""train: `model.fit` that can be stopped at any moment and goes on exactly where it stopped.

It takes a compiled model and a function that gives the batches from any step on, and knows no
task. A run is a folder; see `run_folder`.
"""

import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from albert_keras.new_file import write_file
from albert_keras.optimizers import is_keras_3
from albert_keras.progress import TrainingProgress
from albert_keras.run_folder import METRICS, STATE, TENSORBOARD
from albert_keras.saved_state import SavedState


def train(
    model: tf.keras.Model,
    batches_from: Callable[[int], tf.data.Dataset],
    folder: str | Path,
    *,
    total_steps: int,
    tokens_per_step: int,
    log_every: int = 50,
    save_every: int = 500,
    quiet: bool = False,
) -> int:
    """Trains to `total_steps`, from the newest saved step of the run in `folder`.

    The state is saved every `save_every` steps, at the end, and when the process is asked to stop
    (Ctrl-C, SIGTERM); a process that is killed loses the steps since the last save and repeats
    them with the same batches. Dropout masks are the one thing drawn anew.

    Args:
        model: compiled; its optimizer counts the steps.
        batches_from: gives the batches that follow the first k, for any k; endless.
        folder: of a run begun by `begin_run`. Of several workers each has its own.
        total_steps: int > 0, steps from the very start.
        tokens_per_step: int > 0, B times S, for the speed that is shown.
        log_every: int > 0, steps that a line of metrics.jsonl averages. Default 50.
        save_every: int > 0. Default 500.
        quiet: show no progress. Default False.

    Returns:
        The step that was reached: less than `total_steps` if the process was asked to stop.

    Raises:
        TrainingDiverged: the loss or a weight is NaN or infinite; such weights are never saved.
        ValueError: the run belongs to the other Keras, or a number is out of its range.

    Example:

    >>> model.compile(Lamb(WarmupLinearDecay(1e-3, 100, 1000)))
    >>> begin_run("run", {"batch": 32})
    >>> train(model, batches_from, "run", total_steps=1000, tokens_per_step=32 * 64)
    1000
    """
    if min(total_steps, tokens_per_step, log_every, save_every) < 1:
        raise ValueError(
            "`total_steps`, `tokens_per_step`, `log_every` and `save_every` must be at least 1. "
            f"Received: {total_steps}, {tokens_per_step}, {log_every} and {save_every}."
        )
    refuse_broken_pair(model.distribute_strategy)
    folder = Path(folder)
    state = SavedState(model, folder / STATE)
    start = state.restore()
    if start >= total_steps:
        return start
    _forget_after(folder / METRICS, start)
    with TrainingProgress(total_steps, start, tokens_per_step, quiet=quiet) as progress:
        log = _IntervalLog(folder, state, total_steps, log_every, tokens_per_step, progress)
        with _asked_to_stop() as asked:
            model.fit(
                # Finite: Keras 3 would fill up the last of its `steps_per_execution`.
                batches_from(start).take(total_steps - start),
                epochs=1,
                steps_per_epoch=total_steps - start,
                callbacks=[_Stop(asked), log, _Saver(state, save_every)],
                verbose=0,
                shuffle=False,  # Keras 3 warns that it would not
            )
    state.save()
    return state.step


def refuse_broken_pair(strategy: tf.distribute.Strategy) -> None:
    """Raises ValueError where this Keras is known to fail under this strategy.

    Measured with Keras 3.15: `fit` fails under MultiWorkerMirroredStrategy. Keras 2 does it.
    """
    if is_keras_3() and isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        raise ValueError(
            "Keras 3 cannot train under a MultiWorkerMirroredStrategy. Set TF_USE_LEGACY_KERAS=1 "
            "before TensorFlow is imported, which makes tf.keras Keras 2."
        )


class _Stop(tf.keras.callbacks.Callback):
    """Ends `fit` after the running step once `asked` is set.

    `fit` clears `stop_training` when it begins, so that alone would forget an early Ctrl-C.
    """

    def __init__(self, asked):
        super().__init__()
        self._asked = asked

    def on_train_batch_end(self, batch, logs=None):
        if self._asked.is_set():
            self.model.stop_training = True


class _Saver(tf.keras.callbacks.Callback):
    def __init__(self, state, every):
        super().__init__()
        self._state, self._every = state, every
        self._step = state.step

    def on_train_batch_end(self, batch, logs=None):
        before, self._step = self._step, self._state.step
        # Not a remainder of 0: one call stands for several steps with steps_per_execution.
        if self._step // self._every > before // self._every:
            self._state.save()


class _IntervalLog(tf.keras.callbacks.Callback):
    """Writes the mean of each interval's metrics, then starts them afresh."""

    def __init__(self, folder, state, total_steps, every, tokens_per_step, progress):
        super().__init__()
        self._state = state
        self._path = folder / METRICS
        self._total_steps, self._every = total_steps, every
        self._tokens_per_step, self._progress = tokens_per_step, progress
        self._writer = tf.summary.create_file_writer(str(folder / TENSORBOARD))

    def on_train_begin(self, logs=None):
        self._since, self._logged = time.monotonic(), self._state.step

    def on_train_batch_end(self, batch, logs=None):
        step, ended = self._state.step, self.model.stop_training
        ended |= step == self._total_steps
        if not ended and step // self._every == self._logged // self._every:
            self._progress.advance(step)
            return
        metrics = {name: float(value) for name, value in logs.items()}
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise self._state.diverged(name)
        now = time.monotonic()
        metrics |= {
            "learning_rate": last_learning_rate(self.model.optimizer),
            "tokens_per_second": (step - self._logged)
            * self._tokens_per_step
            / (now - self._since),
        }
        self._since, self._logged = now, step
        with self._path.open("a") as file:
            file.write(json.dumps({"step": step, **metrics}) + "\n")
        # Not tf.summary.scalar: that needs the tensorboard package to be installed.
        values = [
            tf.compat.v1.Summary.Value(tag=name, simple_value=value)
            for name, value in metrics.items()
        ]
        with self._writer.as_default(step):
            tf.summary.experimental.write_raw_pb(
                tf.compat.v1.Summary(value=values).SerializeToString()
            )
        self._writer.flush()
        self._progress.advance(step, metrics)
        self.model.reset_metrics()


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


def _forget_after(path: Path, step: int) -> None:
    """Drops the lines of steps that a killed run had logged but not saved."""
    if not path.exists():
        return
    lines = path.read_text().splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    try:
        kept = [line for line in whole if json.loads(line)["step"] <= step]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged: a line is not as it was written.") from error
    write_file(path, "".join(kept))


@contextmanager
def _asked_to_stop() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets; the second ends the process at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in signals}

    def stop(number, frame):
        asked.set()
        for other in signals:
            signal.signal(other, before[other])

    for number in signals:
        signal.signal(number, stop)
    try:
        yield asked
    finally:
        for number in signals:
            signal.signal(number, before[number])
