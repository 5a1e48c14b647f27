"""What can be said about the user's words at once, before TensorFlow is imported."""

import math
from pathlib import Path

from albert_keras.checkpoint_folder import positions_in
from albert_keras.new_folder import refuse_existing, refuse_unwritable


def refuse_missing(path: str | Path, flag: str) -> None:
    """Raises ValueError unless something is at `path`, which was given as `flag`."""
    if not Path(path).exists():
        raise ValueError(f"{flag} must be there. Received: {path}, which does not exist.")


def refuse_out(folder: str | Path) -> None:
    """Raises ValueError unless a command can make `folder`, where nothing may be yet."""
    refuse_existing(folder)
    refuse_unwritable(folder)


def refuse_out_file(path: Path) -> None:
    """Raises ValueError where a file is already, or none can be made."""
    if path.exists() or not path.absolute().parent.is_dir():
        raise ValueError(
            f"--out must be a new file in a folder that is there. Received: {path}. Name another."
        )


def refuse_length(length: int | None, checkpoint: Path) -> None:
    """Raises ValueError for a --length above the positions of the model in a checkpoint folder."""
    positions = positions_in(checkpoint)
    if length is not None and length > positions:
        raise ValueError(
            f"--length must be at most the {positions} positions of the model. Received: {length}, "
            f"for {checkpoint}."
        )


def refuse_duration(**given: float | None) -> None:
    """Raises ValueError unless exactly one of steps, epochs and minutes is given, and above 0."""
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        received = " and ".join(f"--{name}" for name in named) or "none"
        choices = ", ".join(f"--{name}" for name in given)
        raise ValueError(f"Say how long to train by one of {choices}. Received: {received}.")
    value = given[named[0]]
    if not 0 < value < math.inf:  # NaN as well
        raise ValueError(f"--{named[0]} must be a number above 0. Received: {value}.")


def refuse_share(share: float, flag: str) -> None:
    """Raises ValueError unless 0 < share <= 1."""
    if not 0 < share <= 1:
        raise ValueError(f"{flag} must be above 0 and at most 1. Received: {share}.")


def refuse_schedule(learning_rate: float, warmup: float, steps: int | None) -> None:
    """Raises ValueError for a peak or a warm-up that no run can have."""
    if not 0 < learning_rate < math.inf:
        raise ValueError(f"--learning-rate must be a number above 0. Received: {learning_rate}.")
    if not 0 <= warmup < math.inf or (steps is not None and warmup > steps):
        most = "the steps" if steps is None else f"the {steps} steps"
        raise ValueError(f"--warmup must lie between 0 and {most}. Received: {warmup}.")
