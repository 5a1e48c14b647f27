"""A file that appears whole or not at all."""

import os
import secrets
from pathlib import Path


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
    target = Path(target)
    partial = target.with_name(f".{target.name}.partial-{secrets.token_hex(4)}")
    data = content.encode() if isinstance(content, str) else content
    try:
        with partial.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # or a machine that loses power keeps the name without the data
        os.replace(partial, target)
    except BaseException:  # Ctrl-C as well
        partial.unlink(missing_ok=True)
        raise
