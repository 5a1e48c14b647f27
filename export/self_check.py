"""Proof that an export answers like the Keras model, given by a process that has no such model.

`check_export` starts this very file as a script. That process imports TensorFlow,
tensorflow-text and NumPy only, as TensorFlow Serving has only its kernels, and answers the same
questions through two loaders. Both are needed: `tf.saved_model.load` is content with variables
that the session loader, whose steps are the server's, cannot find.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

OUTPUTS = ("label", "score", "probabilities", "logits")
SIGNATURE = "serving_default"
# Every TensorFlow Serving since 2.12 links these; of RoundRobinTrim and others the same cannot
# be said, so no further op of tensorflow-text may enter an export.
TEXT_OPS = {"SentencepieceOp", "SentencepieceTokenizeOp", "SentencepieceTokenizeWithOffsetsOp"}
# Python cannot follow a graph into another process.
PYTHON_OPS = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}
# Largest difference to the Keras model, as a fraction of the largest logit (or of 1). Sums in
# another order, in fused kernels and beside padding, differ by 3e-6 in ALBERT-base and 1.5e-5 in
# xlarge (measured, random weights); a wrong activation or mask or an unset weight by over 1e-3.
TOLERANCE = 1e-4


def check_export(
    folder: str | Path,
    questions: Sequence[Sequence[bytes]],
    expected_logits: Sequence[np.ndarray],
    labels: Sequence[str],
) -> dict:
    """Answers `questions` from the export in a clean process and compares the answers.

    Args:
        folder: the version folder, with `saved_model.pb` in it.
        questions: batches of raw strings; a batch may be empty.
        expected_logits: for each batch the Keras model's logits, `[B, C]`.
        labels: the C labels, in the order of the logits.

    Returns:
        `{"loaders": [names], "questions": their number, "largest_difference": ...}`.

    Raises:
        RuntimeError: the export cannot be loaded, holds an op that a server lacks, or answers
            differently; the message lists what was found.
    """
    with tempfile.TemporaryDirectory() as scratch:
        asked, answered = Path(scratch, "questions.json"), Path(scratch, "answers.npz")
        # latin-1 takes any byte to a character and back: the questions need not be UTF-8.
        asked.write_text(json.dumps([[q.decode("latin-1") for q in batch] for batch in questions]))
        environment = dict(os.environ)
        environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        environment["CUDA_VISIBLE_DEVICES"] = "-1"  # this process may hold all of its memory
        process = subprocess.run(
            # -P: the folder of this file, which has siblings, stays off the import path.
            [sys.executable, "-P", __file__, str(folder), str(asked), str(answered)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if process.returncode != 0:
            raise RuntimeError(
                f"The process that checks the export ended with {process.returncode}: "
                + "\n".join(process.stderr.splitlines()[-5:])
            )
        with np.load(answered) as archive:
            answers = dict(archive)

    problems = [str(problem) for problem in answers["problems"]]
    largest = 0.0
    failed = {problem.split(":")[0] for problem in problems}
    for loader in LOADERS:
        if loader in failed:
            continue
        for number, expected in enumerate(expected_logits):
            got = {name: answers[f"{loader}/{number}/{name}"] for name in OUTPUTS}
            found, difference = compare_answers(got, expected, labels)
            largest = max(largest, difference)
            problems += [f"{loader}: batch {number} of the questions: {p}" for p in found]
    if problems:
        raise RuntimeError("\n".join(problems))
    return {
        "loaders": list(LOADERS),
        "questions": sum(len(batch) for batch in questions),
        "largest_difference": largest,
    }


def compare_answers(
    got: dict[str, np.ndarray], expected: np.ndarray, labels: Sequence[str]
) -> tuple[list[str], float]:
    """Problems with one batch's answer, and the largest difference of its logits."""
    shapes = {"label": expected.shape[:1], "score": expected.shape[:1]}
    shapes |= {"probabilities": expected.shape, "logits": expected.shape}
    problems = [
        f"{name} has shape {got[name].shape}, expected {shape}"
        for name, shape in shapes.items()
        if got[name].shape != shape
    ]
    if problems or not expected.size:
        return problems, 0.0
    difference = float(np.max(np.abs(got["logits"] - expected)))
    if not difference <= TOLERANCE * max(1.0, float(np.max(np.abs(expected)))):  # NaN as well
        problems.append(
            f"the logits differ from the Keras model's by {difference:.3g}; "
            f"first row {got['logits'][0].tolist()}, expected {expected[0].tolist()}"
        )
    # The other three follow from the logits; a label is judged by the export's own logits, so
    # that a tie is no failure.
    shifted = np.exp(got["logits"] - got["logits"].max(axis=1, keepdims=True))
    probabilities = shifted / shifted.sum(axis=1, keepdims=True)
    best = got["logits"].argmax(axis=1)
    if not np.allclose(got["probabilities"], probabilities, atol=TOLERANCE):
        problems.append("the probabilities are not the softmax of the logits")
    if not np.allclose(got["score"], probabilities.max(axis=1), atol=TOLERANCE):
        problems.append("the score is not the largest probability")
    if got["label"].tolist() != [labels[index] for index in best]:
        problems.append(f"the labels are {got['label'].tolist()}, not those of the largest logits")
    return problems, difference


# ---- the clean process ----

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


def main(folder: str, asked: str, answered: str) -> None:
    """Answers the questions through every loader; what fails becomes a line of `problems`."""
    batches = [
        [q.encode("latin-1") for q in batch] for batch in json.loads(Path(asked).read_text())
    ]
    problems, results = graph_problems(folder), {}
    import tensorflow_text  # noqa: F401  (registers the SentencePiece kernels)

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
    if "albert_keras" in sys.modules:
        problems.append("process: albert_keras was imported, so nothing is proven without it")
    np.savez(answered, problems=np.array(problems, str), **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
