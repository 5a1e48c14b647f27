"""The matrix-multiply floor of a training step, and the batch that every library gets.

Imports TensorFlow only to measure its product: one of the peers runs without it.
"""

import time

import numpy as np

PRODUCT = 2048


def product_flops_per_second(dtype: str, repeats: int = 7) -> float:
    """The best of a few timings of a square matrix product."""
    import tensorflow as tf

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


def step_flops(batch: int, length: int, predictions: int) -> float:
    """Matrix products of one training step of ALBERT-base, E = 128, V = 30,000."""
    layers, hidden, inner, embedding, vocabulary = 12, 768, 3072, 128, 30_000
    a_token = (
        layers * (4 * hidden**2 + 2 * hidden * inner + 2 * length * hidden)
        + embedding * hidden
        + (hidden * embedding + embedding * vocabulary) * predictions / length
        + (hidden**2 + 2 * hidden) / length
    )
    return 3 * 2 * a_token * batch * length


def random_batch(batch: int, length: int, predictions: int) -> dict[str, np.ndarray]:
    draws = np.random.default_rng(0)
    padding_mask = np.ones((batch, length), np.int32)
    padding_mask[-1, -(length // 8) :] = 0
    return {
        "token_ids": draws.integers(5, 30_000, (batch, length)).astype(np.int32),
        "segment_ids": np.repeat([[0] * (length // 2) + [1] * (length - length // 2)], batch, 0),
        "padding_mask": padding_mask,
        "masked_positions": draws.integers(1, length, (batch, predictions)).astype(np.int32),
        "masked_ids": draws.integers(5, 30_000, (batch, predictions)).astype(np.int32),
        "masked_weights": np.ones((batch, predictions), np.float32),
        "sop_labels": draws.integers(0, 2, batch).astype(np.int32),
        "sop_weights": np.ones(batch, np.float32),
    }
