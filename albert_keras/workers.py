"""Several workers: which one this is, what all of them say, and the end of one of them.

A worker is a process of a MultiWorkerMirroredStrategy. Under any other strategy there is one.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import tensorflow as tf

# What TensorFlow raises in a worker when another one has died; not those of wrong data or shapes.
_GONE = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


def has_several_workers(strategy: tf.distribute.Strategy) -> bool:
    """Whether `strategy` is one of several processes."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def worker_index(strategy: tf.distribute.Strategy) -> int:
    """The number of this process among the workers; 0 is the chief, who writes for all."""
    resolver = strategy.cluster_resolver
    if not has_several_workers(strategy) or resolver.task_type is None:  # no TF_CONFIG
        return 0
    chiefs = len(resolver.cluster_spec().as_dict().get("chief", []))
    return resolver.task_id + (chiefs if resolver.task_type == "worker" else 0)


def from_all_workers(strategy: tf.distribute.Strategy, numbers: Sequence[int]) -> np.ndarray:
    """The numbers of all workers, int64 (at least one row a worker, numbers).

    Every worker must call it, with as many numbers; it waits for the last of them.
    """
    row = np.array([numbers], np.int64)
    if not has_several_workers(strategy):
        return row
    return strategy.gather(strategy.run(lambda: tf.constant(row)), axis=0).numpy()


@contextmanager
def naming_lost_workers(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Raises RuntimeError, with what to do, when the block fails because a worker has died."""
    try:
        yield
    except _GONE as error:
        if not has_several_workers(strategy):
            raise
        raise RuntimeError(
            "Another worker is gone, and none can go on without it. See its own output for the "
            "reason; then start all workers again with --resume, and the run goes on from the "
            f"newest step that all have saved. TensorFlow: {str(error).partition(chr(10))[0]}"
        ) from error
