"""SavedState: what a run that is killed goes on from."""

import shutil
import tempfile
from pathlib import Path

import tensorflow as tf

_PARTIAL = ".saving-"


class TrainingDiverged(RuntimeError):
    """The loss or a weight is no longer a finite number."""


class SavedState:
    """The model's and the optimizer's variables on disk, in two newest saves.

    The step is the optimizer's own count, so it cannot disagree with the weights. A save is
    complete when its index has its name. (Not a tf.train.CheckpointManager: it removes old saves
    by a pattern, and a folder named run[12] would mean those of run1 and run2.)
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
        """Loads the newest save, if there is one, and returns the step."""
        for partial in self._folder.glob(f"{_PARTIAL}*"):  # of a killed process
            shutil.rmtree(partial, ignore_errors=True)
        saved = self._saved_steps()
        if saved:
            newest = self._folder / f"step-{saved[-1]}"
            try:
                self._checkpoint.read(str(newest)).assert_existing_objects_matched()
            except (tf.errors.OpError, IndexError, AssertionError, ValueError) as error:
                raise ValueError(
                    f"The training state is damaged: {newest} cannot be read ({error}). Remove "
                    f"{newest.name}.*, and the run goes on from the save before it, if there is "
                    "one."
                ) from error
        return self.step

    def save(self) -> None:
        """Raises TrainingDiverged, and saves nothing, when a variable is no finite number.

        So what is saved is always from before a divergence. The loss alone cannot tell: it is that
        of the weights before the last step.
        """
        variables = [*self._model.weights, *self._optimizer.variables]
        floats = [v for v in map(tf.convert_to_tensor, variables) if v.dtype.is_floating]
        if not all(bool(tf.reduce_all(tf.math.is_finite(v))) for v in floats):
            raise self.diverged("A weight")
        self._folder.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=_PARTIAL) as partial:
            self._checkpoint.write(str(Path(partial) / f"step-{self.step}"))
            # The index, whose name comes last, makes it a save.
            for path in sorted(Path(partial).iterdir()):
                path.replace(self._folder / path.name)
        for step in self._saved_steps()[:-2]:
            for path in self._folder.glob(f"step-{step}.*"):
                path.unlink(missing_ok=True)

    def _saved_steps(self) -> list[int]:
        steps = (path.stem.removeprefix("step-") for path in self._folder.glob("step-*.index"))
        return sorted(int(step) for step in steps if step.isdecimal())

    def diverged(self, what: str) -> TrainingDiverged:
        """The error that says what there is to go back to."""
        steps = self._saved_steps()
        saved = (
            f"The state saved at step {steps[-1]} is from before"
            if steps
            else "No state was saved before"
        )
        return TrainingDiverged(
            f"{what} is not a finite number any more at step {self.step}. {saved}. Begin again "
            "with a lower learning rate or a longer warm-up."
        )
