"""A training step of ALBERT-base as a fraction of the matrix-multiply floor, in one process.

    python -m benchmarks.training_step --shape 16x128 --policy float32

The floor: the floating-point operations of the step's matrix products alone (multiply-add 2,
backwards twice forwards), done at the speed of this process's own best 2,048-square product in the
same type. A step does everything that `fit` does: forwards, both losses, metrics, backwards,
clipping, LAMB. The batch is full but for its last row, an eighth of which is padding.

One JSON line: the seconds of all steps, their median and range, the floor's fraction at the median,
peak memory. `training_step_keras_hub` and `training_step_hugging_face` measure peers.
"""

import argparse
import json
import os
import platform

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from albert_keras import Lamb, build_albert, build_pretrainer, with_pretraining_loss
from albert_keras.masking import prediction_slots
from albert_keras.recipes import MASK_RATE
from albert_keras.training.timing import StepClock
from benchmarks.floor import product_flops_per_second, random_batch, step_flops, step_line


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", default="16x128", help="rows x length")
    parser.add_argument("--policy", default="float32", choices=("float32", "mixed_bfloat16"))
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--profile", help="folder for a trace of one step")
    arguments = parser.parse_args(argv)
    rows, length = map(int, arguments.shape.split("x"))
    predictions = prediction_slots(length, MASK_RATE)
    dtype = "float32" if arguments.policy == "float32" else "bfloat16"

    tf.keras.mixed_precision.set_global_policy(arguments.policy)
    pretrainer = build_pretrainer(build_albert("base"), max_predictions=predictions)
    model = with_pretraining_loss(pretrainer)
    model.compile(Lamb(1e-4))
    batch = {k: tf.constant(v) for k, v in random_batch(rows, length, predictions).items()}

    before = product_flops_per_second(dtype)
    clock = StepClock()
    batches = tf.data.Dataset.from_tensors(batch).repeat()
    model.fit(batches, steps_per_epoch=1 + arguments.steps, verbose=0, callbacks=[clock])
    first, *seconds = clock.seconds
    floor = step_flops(rows, length, predictions) / max(before, product_flops_per_second(dtype))
    line = step_line("training_step", arguments, seconds, first, floor) | {
        "tensorflow": tf.__version__,
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
    }
    print(json.dumps(line))
    if arguments.profile:
        with tf.profiler.experimental.Profile(arguments.profile):
            model.fit(batches, steps_per_epoch=1, verbose=0)


if __name__ == "__main__":
    main()
