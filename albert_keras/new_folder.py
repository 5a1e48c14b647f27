"""A folder that appears whole or not at all."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from albert_keras.lock import lock

Discarded = type[BaseException] | tuple[type[BaseException], ...]


def refuse_existing(target: str | Path) -> None:
    """Raises ValueError when something is at `target`: ask before hours of work, not after."""
    if os.path.lexists(target):
        raise ValueError(
            f"`folder` must not exist yet. Received: {target}. Name another folder, or move that "
            "one away."
        )


def refuse_unwritable(target: str | Path) -> None:
    """Raises ValueError where no folder could be made, as on a read-only file system.

    Nothing but an attempt tells that for every file system and user: a folder is made in the
    nearest parent that exists, and removed.
    """
    parent = next(path for path in Path(target).absolute().parents if os.path.exists(path))
    try:
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=parent):
            pass
    except OSError as error:
        raise ValueError(
            f"`folder` must be where a folder can be made. Received: {target}, and in {parent} "
            f"none can ({error.strerror}). Name another place."
        ) from error


@contextmanager
def new_folder(
    target: str | Path,
    *,
    replace: bool = False,
    resume: bool = False,
    discard_after: Discarded = BaseException,
) -> Iterator[Path]:
    """Yields an empty folder beside `target`, renamed to `target` when the block ends well.

    A reader never sees half of it: when the block raises, everything it wrote is removed, the
    parents made for it too. What a killed process left, `.NAME.partial-...` beside the target, is
    removed by the next one that makes the same folder.

    Args:
        target: the folder to make; its parents are made when missing.
        replace: put it in the place of a folder that exists. Only for a caller who knows that
            the folder is its own.
        resume, discard_after: as of `work_folder`.

    Raises:
        ValueError: `target` exists and `replace` is False; or there is nothing to resume.

    Example:
        >>> with new_folder("results/run1") as folder:
        ...     (folder / "scores.txt").write_text("0.93")
    """
    target = Path(target)
    if not replace:
        refuse_existing(target)
    made = [parent for parent in target.parents if not parent.exists()]  # innermost first
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with work_folder(target, resume=resume, discard_after=discard_after) as partial:
            old = partial.with_name(partial.name + _REPLACED)
            try:
                yield partial
                if replace and target.exists():
                    target.rename(old)
                    partial.rename(target)
                    shutil.rmtree(old, ignore_errors=True)  # what stays, the next process removes
                else:
                    refuse_existing(target)  # rename() would replace an empty folder made meanwhile
                    partial.rename(target)
            except BaseException:  # Ctrl-C as well
                if old.exists() and not target.exists():
                    old.rename(target)
                raise
    except BaseException:
        for parent in made:
            if parent.exists() and not any(parent.iterdir()):
                parent.rmdir()
        raise


@contextmanager
def work_folder(
    target: str | Path, *, resume: bool = False, discard_after: Discarded = BaseException
) -> Iterator[Path]:
    """Yields an empty folder beside `target` for what is not finished, and removes it in the end.

    It is locked while this process works in it. What a killed process left is removed first.

    Args:
        target: names it; its parent must exist.
        resume: yield what a process has left instead, as it is.
        discard_after: after these exceptions it is removed as well; others leave it for `resume`.
            Default BaseException: all.

    Raises:
        ValueError: there is nothing to resume, or another process is at work on it.
    """
    target = Path(target)
    if not resume:
        _remove_abandoned(target)
    with _abandoned(target) if resume else _locked_partial(target) as partial:
        try:
            yield partial
        except discard_after:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        shutil.rmtree(partial, ignore_errors=True)  # it may have been renamed


_REPLACED = "-replaced"


def _partial_prefix(target: Path) -> str:
    # A name that starts with a dot and is no number: TensorFlow Serving looks past it.
    return f".{target.name}.partial-"


@contextmanager
def _locked_partial(target: Path) -> Iterator[Path]:
    """A new folder beside `target`, locked while this process works in it."""
    while True:
        partial = target.parent / (_partial_prefix(target) + secrets.token_hex(4))
        partial.mkdir()
        with lock(partial) as ours:
            # Before it was locked, another process may have taken it for abandoned.
            if ours is not False and partial.exists():
                yield partial
                return


@contextmanager
def _abandoned(target: Path) -> Iterator[Path]:
    """The folder that a process left beside `target`, locked."""
    in_use = False
    for path in target.parent.iterdir():
        if path.name.startswith(_partial_prefix(target)) and not path.name.endswith(_REPLACED):
            with lock(path) as ours:
                if ours is not False:  # None: this file system has no locks
                    yield path
                    return
            in_use = True
    received = "another process is at work. Wait for it" if in_use else "none. Leave `resume` out"
    raise ValueError(f"Unfinished work on {target} must be there to resume. Received: {received}.")


def _remove_abandoned(target: Path) -> None:
    """Removes what killed processes left of `target`: partial folders that nobody has locked."""
    for path in target.parent.iterdir():
        if not path.name.startswith(_partial_prefix(target)):
            continue
        if path.name.endswith(_REPLACED) and not target.exists():
            continue  # killed between the two renames: this is the only whole one
        with lock(path) as ours:
            if ours:
                shutil.rmtree(path, ignore_errors=True)
