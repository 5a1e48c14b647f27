"""A folder that appears whole or not at all."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def refuse_existing(target: str | Path) -> None:
    """Raises ValueError when something is at `target`: ask before hours of work, not after."""
    if Path(target).exists():
        raise ValueError(
            f"The output folder must not exist yet. Received: {target}. "
            "Name another folder, or move that one away."
        )


@contextmanager
def new_folder(target: str | Path, *, replace: bool = False) -> Iterator[Path]:
    """Yields an empty folder beside `target`, renamed to `target` when the block ends well.

    A reader never sees half of it: when the block raises, everything it wrote is removed, the
    parents made for it too.

    Args:
        target: the folder to make; its parents are made when missing.
        replace: put it in the place of a folder that exists. Only for a caller who knows that
            the folder is its own.

    Raises:
        ValueError: `target` exists and `replace` is False.

    Example:
        >>> with new_folder("results/run1") as folder:
        ...     (folder / "scores.txt").write_text("0.93")
    """
    target = Path(target)
    if not replace:
        refuse_existing(target)
    made = [parent for parent in target.parents if not parent.exists()]  # innermost first
    target.parent.mkdir(parents=True, exist_ok=True)
    # A name that starts with a dot and is no number: TensorFlow Serving looks past it.
    partial = target.parent / f".{target.name}.partial-{secrets.token_hex(4)}"
    partial.mkdir()
    try:
        yield partial
        if replace and target.exists():
            old = partial.with_name(partial.name + "-replaced")
            target.rename(old)
            partial.rename(target)
            shutil.rmtree(old)
        else:
            refuse_existing(target)  # rename() would replace an empty folder made meanwhile
            partial.rename(target)
    except BaseException:  # Ctrl-C as well
        shutil.rmtree(partial, ignore_errors=True)
        for parent in made:
            if parent.exists() and not any(parent.iterdir()):
                parent.rmdir()
        raise
