"""The process that knows neither Keras nor this library, and answers from an export.

It is started by its path and imports TensorFlow, tensorflow-text's kernels and NumPy only, as
TensorFlow Serving has only kernels. It answers the same questions through two loaders. Both are
needed: `tf.saved_model.load` is content with variables that the session loader, whose steps are
the server's, cannot find.
"""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

OUTPUTS = ("label", "score", "probabilities", "logits")
SIGNATURE = "serving_default"
# Every TensorFlow Serving since 2.12 links these; of RoundRobinTrim and others the same cannot
# be said, so no further op of tensorflow-text may enter an export.
TEXT_OPS = {
    *("SentencepieceOp", "SentencepieceTokenizeOp", "SentencepieceTokenizeWithOffsetsOp"),
    "FastWordpieceTokenizeWithOffsets",
}
TEXT_KERNELS = ("_sentencepiece_tokenizer.so", "_fast_wordpiece_tokenizer.so")
# Python cannot follow a graph into another process.
PYTHON_OPS = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}
BARRED = ("keras", "tf_keras", "albert_keras")

Answer = Callable[[list[bytes]], dict[str, np.ndarray]]


def _load_tf2(folder: str) -> Answer:
    import tensorflow as tf

    signature = tf.saved_model.load(folder).signatures[SIGNATURE]

    def answer(batch):
        outputs = signature(text=tf.constant(batch, tf.string, shape=[len(batch)]))
        return {name: value.numpy() for name, value in outputs.items()}

    return answer


def _load_tf1(folder: str) -> Answer:
    import tensorflow as tf

    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], folder)
    signature = loaded.signature_def[SIGNATURE]
    outputs = {name: info.name for name, info in signature.outputs.items()}

    def answer(batch):
        return session.run(outputs, {signature.inputs["text"].name: np.array(batch, object)})

    return answer


LOADERS = {"tf.saved_model.load": _load_tf2, "TF1 session loader": _load_tf1}


def graph_problems(folder: str) -> list[str]:
    """What in `saved_model.pb` a TensorFlow Serving without this machine's extras would refuse."""
    import tensorflow as tf
    from tensorflow.core.protobuf import saved_model_pb2

    saved_model = saved_model_pb2.SavedModel.FromString(Path(folder, "saved_model.pb").read_bytes())
    problems = set()
    for meta_graph in saved_model.meta_graphs:
        library = meta_graph.graph_def.library
        functions = {function.signature.name for function in library.function}
        bodies = [(function.attr, function.node_def) for function in library.function]
        for attributes, nodes in [({}, meta_graph.graph_def.node), *bodies]:
            for holder in [attributes, *(node.attr for node in nodes)]:
                # The server turns XLA off on CPUs, and such a function then fails when called.
                if "_XlaMustCompile" in holder and holder["_XlaMustCompile"].b:
                    problems.add("graph: a function must be compiled with XLA (jit_compile=True)")
            for node in nodes:
                known = node.op in TEXT_OPS or node.op in functions or hasattr(tf.raw_ops, node.op)
                if not known or node.op in PYTHON_OPS:
                    problems.add(f"graph: TensorFlow Serving has no op {node.op}")
                if "GPU" in node.device or "TPU" in node.device:
                    problems.add(f"graph: {node.op} is pinned to the device {node.device}")
    return sorted(problems)


def _register_text_ops() -> None:
    import tensorflow as tf

    # Not `import tensorflow_text`: that loads Keras for layers of its own.
    package = Path(importlib.util.find_spec("tensorflow_text").submodule_search_locations[0])
    for kernels in TEXT_KERNELS:
        tf.load_op_library(str(package / "python" / "ops" / kernels))


def main(folder: str, asked: str, answered: str) -> None:
    """Answers the questions through every loader; what fails becomes a line of `problems`."""
    batches = [
        [q.encode("latin-1") for q in batch] for batch in json.loads(Path(asked).read_text())
    ]
    for name in BARRED:
        sys.modules[name] = None  # an import of it, by anyone, is an ImportError from here on
    problems, results = graph_problems(folder), {}
    _register_text_ops()
    for loader, load in LOADERS.items():
        try:
            answer = load(folder)
            for number, batch in enumerate(batches):
                outputs = answer(batch)
                outputs["label"] = np.array([label.decode() for label in outputs["label"]], str)
                for name in OUTPUTS:
                    results[f"{loader}/{number}/{name}"] = outputs[name]
        except Exception as error:  # any: each is a way in which an export can be broken
            problems.append(f"{loader}: {type(error).__name__}: {str(error)[:1000]}")
    present = sorted({name.split(".")[0] for name, module in sys.modules.items() if module})
    if found := [name for name in present if name in BARRED]:
        problems.append(f"process: {found} was imported, so nothing is proven without it")
    np.savez(answered, problems=np.array(problems, str), **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
