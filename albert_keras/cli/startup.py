"""Starts TensorFlow without the page of C++ notices that it writes while it starts."""

import functools
import os
import sys
import tempfile
from collections.abc import Callable


def with_tensorflow(command: Callable) -> Callable:
    """`command`, run after TensorFlow has started.

    Its libraries log to the process's standard error before they read TF_CPP_MIN_LOG_LEVEL (seen
    with 2.21), so that is kept aside meanwhile, and shown only if the start fails.
    """

    @functools.wraps(command)
    def run(*args, **kwargs):
        sys.stderr.flush()
        stderr = os.dup(2)
        with tempfile.TemporaryFile() as notices:
            os.dup2(notices.fileno(), 2)
            try:
                import tensorflow as tf

                tf.config.list_logical_devices()
            except BaseException:
                notices.seek(0)
                os.write(stderr, notices.read())
                raise
            finally:
                os.dup2(stderr, 2)
                os.close(stderr)
        return command(*args, **kwargs)

    return run
