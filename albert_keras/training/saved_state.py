"""SavedState: what a run that is killed goes on from."""

import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from albert_keras.run_folder import saved_steps
from albert_keras.training.workers import from_all_workers

_PARTIAL, _DAMAGED = ".saving-", "damaged-"
_KEPT = 2


class TrainingDiverged(RuntimeError):
    """The loss, the gradients or a weight are no longer finite numbers."""


class SavedState:
    """The model's and the optimizer's variables on disk, in two newest saves.

    The step is the optimizer's own count, so it cannot disagree with the weights. A save is
    complete when its index has its name, and whole when every tensor has the checksum that the
    index has for it. (Not a tf.train.CheckpointManager: it removes old saves by a pattern, and a
    folder named run[12] would mean those of run1 and run2.)

    Args:
        model: compiled.
        folder: of this worker's saves; made by the first.
    """

    def __init__(self, model: tf.keras.Model, folder: Path):
        with model.distribute_strategy.scope():  # or its slots would not be mirrored
            model.optimizer.build(model.trainable_variables)  # they must exist to be restored
        self._model, self._optimizer, self._folder = model, model.optimizer, folder
        self._checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)

    @property
    def step(self) -> int:
        return int(self._optimizer.iterations.numpy())

    def restore(self) -> int:
        """Loads the newest save that is whole, if there is one, and returns the step.

        Of several workers all load the newest step that is whole with each of them. Damaged saves
        that are passed over get other names, `damaged-step-...`, and a warning says which. Whole
        ones of later steps, which another worker lacks, are removed: they will be made again.

        Raises:
            ValueError: all saves are damaged, or are of another model, or workers have none in
                common.
        """
        for partial in self._folder.glob(f"{_PARTIAL}*"):  # of a killed process
            shutil.rmtree(partial, ignore_errors=True)
        saved = saved_steps(self._folder)
        damage = {step: self._damage_of(step) for step in saved}
        whole = [step for step in saved if not damage[step]]
        if saved and not whole:
            raise ValueError(
                f"The training state is damaged: {self._named(saved)} cannot be read "
                f"({damage[saved[-1]]}). Restore {self._folder} from a copy, or begin a new run."
            )
        step = self._newest_of_all_workers(whole)
        for other in saved:
            if damage[other]:
                self._set_aside(other, damage[other], step)
            elif other > step:
                self._remove(other)
        if step:
            try:
                self._checkpoint.read(self._path(step)).assert_existing_objects_matched()
            except (tf.errors.OpError, AssertionError, ValueError) as error:
                raise ValueError(
                    f"{self._path(step)} is the state of another model or optimizer ({error}). Go "
                    "on with the one that the run began with."
                ) from error
        return self.step

    def save(self, first: Callable[[], None] | None = None) -> None:
        """Writes the state, then removes all but the two newest saves.

        Args:
            first: what must be written before; when that raises an OSError, nothing is saved.

        Raises:
            TrainingDiverged: a variable is no finite number; nothing is saved. So what is saved is
                always from before a divergence. The loss alone cannot tell: it is that of the
                weights before the last step.
            OSError, tf.errors.OpError: it cannot be written; the saves before are as they were.
        """
        variables = [*self._model.weights, *self._optimizer.variables]
        floats = [v for v in map(tf.convert_to_tensor, variables) if v.dtype.is_floating]
        if not all(bool(tf.reduce_all(tf.math.is_finite(v))) for v in floats):
            raise self.diverged("A weight")
        with self._partial_folder(first) as partial:
            self._checkpoint.write(str(Path(partial) / f"step-{self.step}"))
            # The index, whose name comes last, makes it a save.
            for path in sorted(Path(partial).iterdir()):
                path.replace(self._folder / path.name)
        for step in saved_steps(self._folder)[:-_KEPT]:
            self._remove(step)

    def from_before(self, step: int | None) -> str:
        """A sentence: which save is from `step` or before, for a run that went wrong after it."""
        steps = [saved for saved in saved_steps(self._folder) if step is not None and saved <= step]
        if steps:
            return f"The state saved at step {steps[-1]} is from before."
        return "No saved state is from before."

    def diverged(self, what: str) -> TrainingDiverged:
        """The error that says what there is to go back to."""
        return TrainingDiverged(
            f"{what} is not a finite number any more at step {self.step}. "
            f"{self.from_before(self.step)} Begin again with a lower learning rate or a longer "
            "warm-up."
        )

    def _partial_folder(self, first):
        partial = problem = None
        try:
            if first is not None:
                first()
            self._folder.mkdir(parents=True, exist_ok=True)
            partial = tempfile.TemporaryDirectory(dir=self._folder, prefix=_PARTIAL)
        except OSError as error:
            problem = error
        # To write is to sum the metrics of all workers: one that cannot would leave them waiting.
        problems = from_all_workers(self._model.distribute_strategy, [problem is not None])
        if not problems.any():
            return partial
        if partial is not None:
            partial.cleanup()
        raise problem or OSError("another worker cannot write its own")

    def _damage_of(self, step: int) -> str:
        """What is wrong with a save; empty when every tensor reads as it was written."""
        try:
            reader = tf.train.load_checkpoint(self._path(step))
            for name in reader.get_variable_to_shape_map():
                reader.get_tensor(name)
        except Exception as error:  # of many types, whatever the broken bytes look like
            return str(error).partition("\n")[0] or type(error).__name__
        return ""

    def _newest_of_all_workers(self, whole: list[int]) -> int:
        """The newest step that all workers have; 0, the beginning, when they have saved none."""
        newest = [-1] * _KEPT + whole
        workers = from_all_workers(self._model.distribute_strategy, newest[-_KEPT:])
        common = set.intersection(*map(set, workers.tolist())) - {-1}
        if common:
            return max(common)
        # None, or killed while they made the first.
        if (workers[:, :-1] < 0).all():
            return 0
        raise ValueError(
            "All workers go on from the same step. Received: no step that all have saved and can "
            f"read; this one has {self._named(whole) if whole else 'none'}, others "
            f"{sorted(set(workers.ravel().tolist()) - {-1})}. The state is the same with every "
            "worker: copy the saves of one that has them to the others (their training/ and "
            "training/worker-N)."
        )

    def _set_aside(self, step, damage, used):
        for path in sorted(self._files(step), reverse=True):  # the index first: now it is no save
            path.replace(path.with_name(_DAMAGED + path.name))
        where = f"the one of step {used}" if used else "the beginning"
        warnings.warn(
            f"The state saved at step {step} is damaged ({damage}), and the run goes on from "
            f"{where}. It is now {self._folder / (_DAMAGED + f'step-{step}')}.*, and can be "
            "removed.",
            stacklevel=4,
        )

    def _remove(self, step):
        for path in sorted(self._files(step), reverse=True):
            path.unlink(missing_ok=True)

    def _files(self, step):
        return self._folder.glob(f"step-{step}.*")

    def _path(self, step):
        return str(self._folder / f"step-{step}")

    def _named(self, steps):
        return ", ".join(self._path(step) for step in steps)
