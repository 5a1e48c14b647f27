"""A lock that ends with the process that holds it, however that ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None


@contextmanager
def lock(path: str | Path) -> Iterator[bool | None]:
    """Locks a file or folder for the block, and yields whether that succeeded.

    True: it is ours. False: another process (or another block of this one) has it. None: this
    file system or operating system has no such locks, so nobody can tell.

    The lock is advisory: it keeps nobody from reading or writing, only from holding it as well.

    Args:
        path: must exist; nothing is written to it.
    """
    descriptor = None
    try:
        ours = None
        if fcntl is not None:
            # NFS locks only what is open for writing, and a folder opens for reading alone.
            mode = os.O_RDONLY if os.path.isdir(path) else os.O_RDWR
            descriptor = os.open(path, mode)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = True
    except BlockingIOError:
        ours = False
    except OSError:
        ours = None
    try:
        yield ours
    finally:
        if descriptor is not None:
            os.close(descriptor)
