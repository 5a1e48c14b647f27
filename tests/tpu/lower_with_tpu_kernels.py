"""Lowers the parts of a train step with a TPU's own kernels, on a machine that has no TPU.

    make tpu-lowering

Needs tensorflow-tpu 2.20.0 and libtpu 0.0.14, in an environment that the target makes for them.
Loss and gradients are lowered with the weights as constants, since without a device there are no
variables; LAMB's rule and the masking take tensors anyway. Prints a line for each part, and fails
if one does not lower or has a shape that depends on values.
"""

import os
import re
import sys
import time

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
# Or libtpu asks Google's metadata server what machine this is, for minutes.
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.python.framework.convert_to_constants import (  # noqa: E402
    convert_variables_to_constants_v2,
)

import albert_keras.xla_kernel  # noqa: E402
from albert_keras.masking import ngram_mask  # noqa: E402
from albert_keras.optimizers import lamb_update  # noqa: E402
from tests.tpu.train_step import batch, training_model  # noqa: E402


def hlo_of(function, *inputs):
    compiled = tf.function(function, jit_compile=True, autograph=False)
    return compiled.experimental_get_compiler_ir(*inputs)(stage="hlo", platform_name="TPU")


def loss_and_gradients(objective, micro_batches, policy="float32"):
    """A function of a flat batch, with the weights inside, and the batch."""
    tf.keras.mixed_precision.set_global_policy(policy)
    model = training_model(objective, micro_batches)
    variables = model.trained_variables

    def gradients(data):
        totals = tf.stack(
            [tf.reduce_sum(data["masked_weights"]), tf.reduce_sum(data["sop_weights"])]
        )
        compute = model._gradients if micro_batches == 1 else model._accumulated
        return compute(data, totals, variables)

    data = batch()
    traced = tf.function(gradients, autograph=False).get_concrete_function(data)
    frozen = convert_variables_to_constants_v2(traced, lower_control_flow=False)
    tf.keras.mixed_precision.set_global_policy("float32")
    return frozen, tf.nest.flatten(data)


def lamb():
    weights = tf.ones([300, 128])
    numbers = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-6, "weight_decay": 0.01, "adapt": True}

    def update(*tensors):
        return lamb_update(*tensors, **numbers)

    return update, [weights] * 4 + [tf.constant(1e-3), tf.constant(1.0), tf.constant(1.0)]


def masking():
    kinds = np.array([0] * 5 + [2, 1] * 50, np.int8)

    def mask(token_ids, seed):
        return ngram_mask(token_ids, kinds, seed, max_predictions=19)

    return mask, [tf.ones([8, 128], tf.int32), tf.constant([1, 2], tf.int64)]


def selection():
    return lambda x: tf.boolean_mask(x, x > 0), [tf.ones([8])]


PARTS = {
    "loss and gradients, sop": lambda: loss_and_gradients("sop", 1),
    "loss and gradients, nsp, two micro-batches, bfloat16": lambda: loss_and_gradients(
        "nsp", 2, "mixed_bfloat16"
    ),
    "LAMB's update": lamb,
    "n-gram masking": masking,
}


def main():
    # The functions inside the step as they are under a TPUStrategy.
    albert_keras.xla_kernel._TPU = tf.distribute.Strategy
    failed = 0
    for name, make in {**PARTS, "a selection, which must be found": selection}.items():
        begun = time.monotonic()
        function, inputs = make()
        hlo = hlo_of(function, *inputs)
        bounded = re.search(r"\[[^\]]*<=\d+", hlo)
        failed += bool(bounded) == (name in PARTS)
        shapes = f"a shape depends on values: {bounded[0]}]" if bounded else "every shape is known"
        print(f"{name}: {len(hlo):,} bytes of HLO in {time.monotonic() - begun:.0f} s, {shapes}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
