"""ONNX: a model as one file, its matrices in 8 bits, and running it."""

import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

from .model_function import MISSING_EXTRA, Run

try:
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process
    from tf2onnx import optimizer, tf_loader
    from tf2onnx.tfonnx import process_tf_graph
except ImportError as error:
    raise ImportError(MISSING_EXTRA.format(error=error)) from error

# Read by every ONNX Runtime since 1.12.
_OPSET = 17
# Of tf2onnx's twelve. Its `reshape_optimizer` writes "as in the input" into a shape and its
# `remove_back_to_back` then gives that reshape another input: with our layers the file loads and
# fails at the first row (tf2onnx 1.17). The runtime does the others itself when it loads a file.
_OPTIMIZERS = {
    "fold_constants": optimizer.ConstFoldOptimizer,
    "merge_duplication": optimizer.MergeDuplicatedNodesOptimizer,
    "remove_identity": optimizer.IdentityOptimizer,
}


def to_onnx(function) -> bytes:
    """A `.onnx` file, float32, of `model_function`'s result.

    A matrix that several layers share is one initializer.

    tf2onnx's `from_function` logs what it cannot convert and goes on; this raises.
    """
    concrete = function.get_concrete_function()
    inputs = [tensor.name for tensor in concrete.inputs if tensor.dtype != tf.resource]
    outputs = [tensor.name for tensor in concrete.outputs]
    names = [spec.name for spec in function.input_signature]
    names += sorted(concrete.structured_outputs)  # as a dict is flattened
    with tf.device("/CPU:0"):
        frozen = tf_loader.from_function(concrete, inputs, outputs)
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(frozen, name="")
            converted = process_tf_graph(
                graph,
                opset=_OPSET,
                input_names=inputs,
                output_names=outputs,
                tensors_to_rename=dict(zip([*inputs, *outputs], names, strict=True)),
            )
            converted = optimizer.optimize_graph(
                converted, catch_errors=False, optimizers=_OPTIMIZERS
            )
            return converted.make_model("albert_keras").SerializeToString()


def with_int8_weights(model: bytes) -> bytes:
    """The same with matrices and tables in 8 bits, their inputs rounded to 8 bits as it runs.

    A matrix has a scale for each column and uses 7 of the bits: a processor without VNNI adds two
    products in 16 bits, where 8-bit weights overflow. Measured on one with AVX2 alone, ALBERT-base
    with random weights, the largest difference of a logit: 0.092 with 8 bits, 0.010 with 7.
    """
    with tempfile.TemporaryDirectory() as folder:
        plain, prepared, quantized = (str(Path(folder, name)) for name in "abc")
        Path(plain).write_bytes(model)
        quant_pre_process(plain, prepared, skip_optimization=True, skip_symbolic_shape=True)
        quantize_dynamic(
            prepared, quantized, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True
        )
        return Path(quantized).read_bytes()


def load_onnx(path: str | Path, threads: int | None = None) -> Run:
    """A function that runs the file, on the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0  # 0: as many as there are cores
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(inputs):
        arrays = {name: np.asarray(array, np.int32) for name, array in inputs.items()}
        return dict(zip(names, session.run(names, arrays), strict=True))

    return run
