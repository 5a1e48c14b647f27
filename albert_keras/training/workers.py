"""Several workers: which one this is, what all of them say, and the end of one of them.

A worker is a process of a MultiWorkerMirroredStrategy. Under any other strategy there is one.
"""

import functools
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
    """The numbers of all workers, int64 (workers, numbers).

    Every worker must call it, with as many numbers; it waits for the last of them.
    """
    if not has_several_workers(strategy):
        return np.array([numbers], np.int64)
    workers = sum(map(len, strategy.cluster_resolver.cluster_spec().as_dict().values())) or 1
    rows = np.zeros([workers, len(numbers)], np.int64)
    rows[worker_index(strategy)] = numbers
    # A sum of rows in which each has its own: `strategy.gather` traces a function in every call.
    rows = _sum_over_replicas(strategy)(tf.constant(rows)).numpy()
    return rows // (strategy.num_replicas_in_sync // workers)


@functools.cache
def _sum_over_replicas(strategy):
    @tf.function
    def summed(rows):
        return strategy.reduce("SUM", strategy.run(tf.identity, args=(rows,)), axis=None)

    return summed


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
