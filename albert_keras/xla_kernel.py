"""xla_kernel: a function of tensors that XLA compiles by itself, inside a step that it does not."""

import functools
from collections.abc import Callable

import tensorflow as tf

_TPU = (tf.distribute.TPUStrategy, tf.distribute.experimental.TPUStrategy)


def xla_kernel(function: Callable) -> Callable:
    """`function` as one XLA kernel; under a TPUStrategy `function` as it is.

    A TPU's step is compiled as a whole, and what belongs together is fused there. A function that
    must be compiled, inside of one, is a case that nobody is known to have run on a TPU.

    Args:
        function: takes and gives tensors, never variables; other arguments by keyword.

    Example:

    >>> double = xla_kernel(lambda x: x + x)
    >>> float(double(tf.constant(2.0)))
    4.0
    """
    compiled = tf.function(function, jit_compile=True, autograph=False)

    @functools.wraps(function)
    def call(*tensors, **settings):
        on_tpu = isinstance(tf.distribute.get_strategy(), _TPU)
        return (function if on_tpu else compiled)(*tensors, **settings)

    return call
