"""What can be said about the user's words at once, before TensorFlow is imported."""

import math
from pathlib import Path


def refuse_missing(path: str | Path, flag: str) -> None:
    """Raises ValueError unless something is at `path`, which was given as `flag`."""
    if not Path(path).exists():
        raise ValueError(f"{flag} must be there. Received: {path}, which does not exist.")


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
