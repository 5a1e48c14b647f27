"""model_function: what is converted, a function of integers with open batch and length."""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

# What a converted model is for who runs it: named arrays to named arrays.
Run = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]

MISSING_EXTRA = (
    "Models for devices are converted and run by libraries of the extra `edge`, of which one "
    "cannot be imported ({error}). Install them: pip install 'albert-keras[edge]'."
)


def model_function(model: tf.keras.Model):
    """The model as a `tf.function` of its inputs, by name, int32, to its outputs by name.

    >>> from albert_keras import build_albert
    >>> [spec.name for spec in model_function(build_albert("tiny")).input_signature]
    ['token_ids', 'segment_ids', 'padding_mask']
    """
    names = list(model.input)
    specs = [tf.TensorSpec(model.input[name].shape, tf.int32, name=name) for name in names]
    return tf.function(
        lambda *rows: dict(model(dict(zip(names, rows, strict=True)), training=False)),
        input_signature=specs,
        jit_compile=False,
    )
