"""The matrix-multiply floor: the least time that a model's products take on this machine."""

import time

PRODUCT = 2048


def product_flops_per_second(dtype: str, repeats: int = 7) -> float:
    """The best of a few timings of a square matrix product.

    Args:
        dtype: "float32" or "bfloat16".
        repeats: int > 0, timings. Default 7.
    """
    import tensorflow as tf  # here: what shares this module's batch and FLOPs may run without it

    a, b = (tf.cast(tf.random.normal((PRODUCT, PRODUCT)), dtype) for _ in range(2))
    product = tf.function(lambda a, b: tf.matmul(a, b))
    product(a, b)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(4):
            result = product(a, b)
        result[0, 0].numpy()
        seconds.append((time.perf_counter() - start) / 4)
    return 2 * PRODUCT**3 / min(seconds)
