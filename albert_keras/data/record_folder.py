"""Where a record set comes into being: beside its place, or on this machine for a remote one."""

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from albert_keras.data.shards import is_shard_name
from albert_keras.data.storage import is_remote, remote_files
from albert_keras.new_folder import Discarded, new_folder, refuse_existing, work_folder


def refuse_existing_records(folder: str | Path) -> None:
    """Raises ValueError when something is at `folder`; shards alone are what a killed run left.

    A remote folder has no atomic rename: its manifest, written last, makes it a record set.
    """
    if not is_remote(folder):
        refuse_existing(folder)
        return
    others = [name for name in _names_in(folder) if not is_shard_name(name)]
    if others:
        raise ValueError(
            f"`folder` must not exist yet. Received: {folder}, which holds {others[0]}. Name "
            "another folder, or remove that one."
        )


@contextmanager
def record_folder(
    folder: str | Path, *, resume: bool = False, discard_after: Discarded = BaseException
) -> Iterator[Path]:
    """Yields the folder of this machine in which to write the records of `folder`.

    Beside `folder`, and renamed to it in the end. For a remote one it is in the temporary folder
    (of TMPDIR), from which everything is to be uploaded; it is removed in the end. Nobody sees
    there when somebody else writes the same records.

    Args:
        folder: of the record set.
        resume, discard_after: as of `work_folder`.

    Raises:
        ValueError: `folder` exists or cannot be made, or there is nothing to resume.
    """
    refuse_existing_records(folder)
    if not is_remote(folder):
        with new_folder(folder, resume=resume, discard_after=discard_after) as partial:
            yield partial
        return
    if not resume:
        begin_remote(folder)
    name = f"albert_keras-records-{hashlib.sha256(folder.encode()).hexdigest()[:16]}"
    target = Path(tempfile.gettempdir()) / name
    with work_folder(target, resume=resume, discard_after=discard_after) as work:
        yield work


def begin_remote(folder: str) -> None:
    """Makes a remote folder, which must not hold a record set, without what a killed run left."""
    with remote_files(folder) as gfile:
        gfile.makedirs(folder)
        for name in _names_in(folder):
            gfile.remove(gfile.join(folder, name))


def _names_in(folder):
    with remote_files(folder) as gfile:
        return sorted(gfile.listdir(folder)) if gfile.isdir(folder) else []
