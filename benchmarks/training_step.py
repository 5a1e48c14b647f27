"""A training step of ALBERT-base as a fraction of the matrix-multiply floor, in one process.

    python -m benchmarks.training_step --shape 16x128 --policy float32

The floor: the floating-point operations of the step's matrix products alone (multiply-add 2,
backwards twice forwards), done at the speed of this process's own best 2,048-square product in the
same type. A step does everything that `fit` does: forwards, both losses, metrics, backwards,
clipping, LAMB. The batch is full but for its last row, an eighth of which is padding.

One JSON line: median and range of the step, the floor's fraction at the median, peak memory.
"""

import argparse
import json
import os
import platform
import resource
import time

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

from albert_keras import Lamb, build_albert, build_pretrainer, with_pretraining_loss

PRODUCT = 2048


def product_flops_per_second(dtype: str, repeats: int = 7) -> float:
    """The best of a few timings of a square matrix product."""
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
        "segment_ids": np.repeat([[0] * (length // 2) + [1] * (length // 2)], batch, 0),
        "padding_mask": padding_mask,
        "masked_positions": draws.integers(1, length, (batch, predictions)).astype(np.int32),
        "masked_ids": draws.integers(5, 30_000, (batch, predictions)).astype(np.int32),
        "masked_weights": np.ones((batch, predictions), np.float32),
        "sop_labels": draws.integers(0, 2, batch).astype(np.int32),
        "sop_weights": np.ones(batch, np.float32),
    }


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", default="16x128", help="rows x length")
    parser.add_argument("--policy", default="float32", choices=("float32", "mixed_bfloat16"))
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--profile", help="folder for a trace of one step")
    arguments = parser.parse_args(argv)
    rows, length = map(int, arguments.shape.split("x"))
    predictions = int(0.15 * length)
    dtype = "float32" if arguments.policy == "float32" else "bfloat16"

    tf.keras.mixed_precision.set_global_policy(arguments.policy)
    pretrainer = build_pretrainer(build_albert("base"), max_predictions=predictions)
    model = with_pretraining_loss(pretrainer)
    model.compile(Lamb(1e-4))
    batch = {k: tf.constant(v) for k, v in random_batch(rows, length, predictions).items()}

    before = product_flops_per_second(dtype)
    start = time.perf_counter()
    model.train_on_batch(batch)
    first = time.perf_counter() - start
    seconds = []
    for _ in range(arguments.steps):
        start = time.perf_counter()
        model.train_on_batch(batch)
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    floor = step_flops(rows, length, predictions) / max(before, product_flops_per_second(dtype))
    if arguments.profile:
        with tf.profiler.experimental.Profile(arguments.profile):
            model.train_on_batch(batch)
    print(
        json.dumps(
            {
                "benchmark": "training_step",
                "shape": arguments.shape,
                "policy": arguments.policy,
                "step_seconds": [round(f(seconds), 3) for f in (np.median, min, max)],
                "tokens_per_second": round(rows * length / np.median(seconds)),
                "floor_seconds": round(floor, 3),
                "floor_fraction": round(floor / np.median(seconds), 3),
                "best_floor_fraction": round(floor / min(seconds), 3),
                "first_step_seconds": round(first, 1),
                "peak_mb": round(peak),
                "tensorflow": tf.__version__,
                "machine": platform.machine(),
                "cpus": os.cpu_count(),
            }
        )
    )


if __name__ == "__main__":
    main()
