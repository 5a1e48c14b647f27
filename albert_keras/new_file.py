"""A file that appears whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_file(target: str | Path, content: str | bytes) -> None:
    """Writes a file, or replaces it, so that a reader never sees half of it.

    It is written under another name in the same folder and renamed: a process that is killed
    leaves the file as it was.

    Args:
        target: the file; its folder must exist.
        content: bytes, or text that is written as UTF-8.

    Example:
        >>> write_file("scores.txt", "0.93")
    """
    data = content.encode() if isinstance(content, str) else content
    with new_file(target) as file:
        file.write(data)


@contextmanager
def new_file(target: str | Path) -> Iterator[BinaryIO]:
    """As `write_file`, for content that is not in memory at once: yields the file to write to.

    Example:
        >>> with new_file("predictions.tsv") as file:
        ...     file.write(b"id\\tpredicted\\n")
    """
    target = Path(target)
    partial = target.with_name(f".{target.name}.partial-{secrets.token_hex(4)}")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # or a machine that loses power keeps the name without the data
        os.replace(partial, target)
    except BaseException:  # Ctrl-C as well
        partial.unlink(missing_ok=True)
        raise
