"""A disk that is full for this process: no file grows beyond some bytes."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(largest: int) -> Iterator[None]:
    """Lets no file grow beyond `largest` bytes. (Python ignores the signal, so writes fail.)"""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
