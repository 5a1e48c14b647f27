"""Files of this machine and, by a scheme such as gs://, of any file system that TensorFlow knows.

TensorFlow, which takes seconds to import, is imported for a path with a scheme only.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def is_remote(path: str | Path) -> bool:
    """Whether a path has a scheme."""
    return "://" in str(path)


def is_folder(path: str | Path) -> bool:
    if not is_remote(path):
        return Path(path).is_dir()
    with remote_files(path) as gfile:
        return gfile.isdir(path)


def exists(path: str | Path) -> bool:
    if not is_remote(path):
        return Path(path).exists()
    with remote_files(path) as gfile:
        return gfile.exists(path)


def files_below(folder: str | Path, endings: tuple[str, ...]) -> list[Path | str]:
    """The files below a folder whose names have one of the endings, sorted by path."""
    if not is_remote(folder):
        return sorted(
            path
            for path in Path(folder).rglob("*")
            if path.name.endswith(endings) and path.is_file()
        )
    with remote_files(folder) as gfile:
        return sorted(
            gfile.join(parent, name)
            for parent, _, names in gfile.walk(folder)
            for name in names
            if name.endswith(endings)
        )


def size_and_time(path: str | Path) -> tuple[int, int]:
    """Bytes of a file, and when it was last changed, in nanoseconds since 1970."""
    if not is_remote(path):
        status = Path(path).stat()
        return status.st_size, status.st_mtime_ns
    with remote_files(path) as gfile:
        status = gfile.stat(path)
        return status.length, status.mtime_nsec


@contextmanager
def open_file(path: str | Path) -> Iterator[BinaryIO]:
    """A file to read bytes from; what cannot be read raises a ValueError with its name."""
    if is_remote(path):
        with remote_files(path) as gfile, gfile.GFile(path, "rb") as stream:
            yield stream
        return
    try:
        with open(path, "rb") as stream:
            yield stream
    except OSError as error:
        raise ValueError(f"Cannot read {path}: {error.strerror}.") from None


def upload(path: Path, folder: str) -> None:
    """Moves a file of this machine to a remote folder."""
    with remote_files(folder) as gfile:
        gfile.copy(str(path), gfile.join(folder, path.name), overwrite=True)
    path.unlink()


@contextmanager
def local_copy(path: str | Path, names: Sequence[str] = ()) -> Iterator[Path]:
    """A path of this machine: `path` itself, or a copy of what is remote, removed in the end.

    Args:
        path: a file or folder.
        names: of a remote folder, what is copied, as far as it is there.

    Raises:
        ValueError: a remote path that is missing, or a remote folder without any of the names.
    """
    if not is_remote(path):
        yield Path(path)
        return
    with tempfile.TemporaryDirectory() as here:
        with remote_files(path) as gfile:
            if not gfile.isdir(path):
                copy = Path(here, path.rpartition("/")[2])
                gfile.copy(path, str(copy))
            else:
                copy = Path(here)
                found = [name for name in names if gfile.exists(gfile.join(path, name))]
                if not found:
                    raise ValueError(
                        f"The folder must hold {' or '.join(names)}. Received: {path}, without."
                    )
                for name in found:
                    (copy / name).parent.mkdir(exist_ok=True)
                    gfile.copy(gfile.join(path, name), str(copy / name))
        yield copy


@contextmanager
def remote_files(path: str) -> Iterator:
    """Yields tf.io.gfile; what fails with it raises a ValueError with the path."""
    import tensorflow as tf

    try:
        yield tf.io.gfile
    except tf.errors.OpError as error:  # an unknown scheme as well
        raise ValueError(f"Cannot use {path}: {error.message}.") from None
