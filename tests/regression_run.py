"""A run of `train` that takes a second: linear regression on batches drawn from their number."""

import itertools
import json

import numpy as np
import tensorflow as tf

from albert_keras import Lamb, WarmupLinearDecay
from albert_keras.run_folder import begin_run
from albert_keras.training.loop import train

STEPS, BATCH, WIDTH = 12, 8, 4


def regression(learning_rate=0.05, clip=1.0):
    tf.keras.utils.set_random_seed(3)
    model = tf.keras.Sequential([tf.keras.Input((WIDTH,)), tf.keras.layers.Dense(1)])
    rate = WarmupLinearDecay(learning_rate, 2, STEPS)
    model.compile(Lamb(rate, global_clipnorm=clip), loss="mse")
    return model


def batches_from(start, on_batch=None):
    """Batches that depend on their number alone; `on_batch` sees each number as it is used."""

    def generate():
        for step in itertools.count(start):
            if on_batch:
                on_batch(step)
            draws = np.random.default_rng(step)
            x = draws.normal(size=(BATCH, WIDTH)).astype(np.float32)
            yield x, x.sum(axis=1, keepdims=True)

    specs = tf.TensorSpec([BATCH, WIDTH]), tf.TensorSpec([BATCH, 1])
    return tf.data.Dataset.from_generator(generate, output_signature=specs)


def with_nan_in(steps):
    """The batches, but those of `steps` are of NaN."""

    def batches(start):
        numbered = batches_from(start).enumerate(start)
        return numbered.map(
            lambda step, batch: (
                tf.where(
                    tf.reduce_any(step == tf.constant(list(steps), tf.int64)), np.nan, batch[0]
                ),
                batch[1],
            )
        )

    return batches


def run(folder, batches=batches_from, resume=False, model=None, **options):
    """Begins or resumes a run, and gives the step that it reached and the weights."""
    begin_run(folder, {"batch": BATCH}, resume=resume)
    model = model or regression()
    settings = {"total_steps": STEPS, "tokens_per_step": BATCH, "log_every": 2, "quiet": True}
    reached = train(model, batches, folder, **{**settings, **options})
    return reached, [weight.numpy() for weight in model.weights]


def lines(folder, name="metrics.jsonl"):
    path = folder / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def assert_same_weights(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)
