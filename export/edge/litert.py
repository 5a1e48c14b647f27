"""LiteRT, which was TensorFlow Lite: a model as one file, and running it."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from albert_keras.served_folder import SIGNATURE

from .model_function import MISSING_EXTRA, Run

try:
    from ai_edge_litert.interpreter import Interpreter
except ImportError as error:
    raise ImportError(MISSING_EXTRA.format(error=error)) from error


def to_litert(function, variables: Sequence[tf.Variable], weights: str) -> bytes:
    """A `.tflite` file of `model_function`'s result.

    A matrix that several layers share is one buffer, which they all read.

    Args:
        function: see `model_function`.
        variables: those that it reads, as raw `tf.Variable`s.
        weights: "int8" for dynamic range, matrices as 8 bits and their inputs rounded to 8 bits
            while it runs; or "fp16", weights as 16 bits and arithmetic as the device likes it.
    """
    holder = tf.Module()
    holder.variables_read, holder.function = list(variables), function
    with tempfile.TemporaryDirectory() as folder:
        # By way of a SavedModel, which keeps the names of inputs and outputs.
        tf.saved_model.save(holder, folder, signatures={SIGNATURE: function})
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if weights == "fp16":
            converter.target_spec.supported_types = [tf.float16]
        return converter.convert()


def load_litert(path: str | Path, threads: int | None = None) -> Run:
    """A function that runs the file, for batches of one row and more, one call at a time."""
    interpreter = Interpreter(model_path=str(path), num_threads=threads)
    runner = interpreter.get_signature_runner(SIGNATURE)
    return lambda inputs: runner(**inputs)
