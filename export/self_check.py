"""Proof that an export answers like the Keras model, given by processes that have no such model.

`check_export` looks at the graph, starts `clean_process.py` as a script, and compares its answers.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from . import clean_process
from .clean_process import PROCESSES, read_arrays, write_arrays
from .serving_ops import graph_problems, ops_in, read_saved_model, serving_versions

# Largest difference to the Keras model, as a fraction of an output's largest number (or of 1).
# Sums in another order, in fused kernels and beside padding, differ by 3e-6 in ALBERT-base and
# 1.5e-5 in xlarge (logits, random weights); a wrong activation or mask or an unset weight by over
# 1e-3.
TOLERANCE = 1e-4
# Numbers as large as this stand for "never", as the -1e9 of a score that is masked. They are
# compared, but say nothing about how large the other ones are.
NEVER = 1e6
# The kernels of tensorflow-text that a graph may need, by one of the ops that it then has.
_KERNELS = {
    "SentencepieceOp": "_sentencepiece_tokenizer.so",
    "FastWordpieceTokenizeWithOffsets": "_fast_wordpiece_tokenizer.so",
}


class Question(NamedTuple):
    """What an export is asked, and what the Keras model answers.

    Attributes:
        signature: str.
        inputs: by name an array, of int32 or of objects, which are bytes.
        outputs: by name an array, of numbers or of objects, which are bytes; all outputs of the
            signature, or {} for a question that must only run.
        decided: of outputs that are whole numbers or strings a bool array of their shape, False
            where the Keras model is so near a tie that another answer is as right. What is not
            named is decided everywhere.
    """

    signature: str
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]
    decided: Mapping[str, np.ndarray] = {}


def check_export(folder: str | Path, questions: Sequence[Question]) -> dict:
    """Asks an export in clean processes, and compares its answers.

    Args:
        folder: the version folder, with `saved_model.pb` in it.
        questions: one or more of each signature.

    Returns:
        The report: `loaders` that answered and `skipped` ones with the reason, how many
        `questions`, the `largest_difference` as a fraction of an output's largest number, and
        `serving_versions`, those of TensorFlow Serving whose ops suffice.

    Raises:
        RuntimeError: the export cannot be loaded, holds what a server lacks, or answers
            differently; the message lists all that was found.
    """
    saved_model = read_saved_model(folder)
    problems = [*graph_problems(saved_model), *_unasked(saved_model, questions)]
    ops = ops_in(saved_model)
    kernels = [file for op, file in _KERNELS.items() if op in ops]
    skipped = {}
    if sys.platform != "linux":
        skipped = {name: f"runs on Linux only, not on {sys.platform}" for name in PROCESSES["c"][0]}
    largest, loaders = 0.0, []
    for loader, answers, found in _ask(folder, questions, kernels, skipped):
        loaders.append(loader)
        problems += found
        for number, (question, got) in enumerate(zip(questions, answers, strict=True)):
            if not got:
                continue  # a problem that is listed
            found, difference = compare(got, question)
            largest = max(largest, difference)
            problems += [
                f"{loader}: question {number} of {question.signature}: {problem}"
                for problem in found
            ]
    if problems:
        raise RuntimeError("\n".join(problems))
    return {
        "loaders": loaders,
        "skipped": skipped,
        "questions": len(questions),
        "largest_difference": largest,
        "serving_versions": serving_versions(),
    }


def _unasked(saved_model, questions):
    # TensorFlow adds a signature of its own for its initialisation, "__saved_model_init_op".
    signatures = {
        name
        for meta_graph in saved_model.meta_graphs
        for name in meta_graph.signature_def
        if not name.startswith("__")
    }
    unasked = sorted(signatures - {question.signature for question in questions})
    return [f"questions: none is of the signature {name}" for name in unasked]


def _ask(folder, questions, kernels, skipped):
    """For each loader its name, its answer to each question ({} without one), and its problems."""
    asked = {"signatures": np.array([question.signature for question in questions], str)}
    for number, question in enumerate(questions):
        asked |= {f"{number}/{name}": array for name, array in question.inputs.items()}
    with tempfile.TemporaryDirectory() as scratch:
        write_arrays(Path(scratch, "asked.npz"), asked)
        running = {
            process: _start(process, folder, Path(scratch), kernels)
            for process, (loaders, _) in PROCESSES.items()
            if not set(loaders) <= set(skipped)
        }
        try:
            for process, child in running.items():
                yield from _answers(process, child.wait(), Path(scratch), len(questions))
        finally:
            for child in running.values():
                child.kill()  # nothing for one that has ended
                child.wait()


def _start(process, folder, scratch, kernels):
    environment = dict(os.environ)
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    environment["CUDA_VISIBLE_DEVICES"] = "-1"  # this process may hold all of its memory
    asked, answered = scratch / "asked.npz", scratch / f"{process}.npz"
    with (scratch / f"{process}.stderr").open("wb") as said:
        return subprocess.Popen(
            # -P: the folder of that file, which has siblings, stays off the import path.
            [
                *(sys.executable, "-P", clean_process.__file__),
                *(process, str(folder), str(asked), str(answered), *kernels),
            ],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )


def _answers(process, status, scratch, total):
    loaders = PROCESSES[process][0]
    if status != 0:
        said = (scratch / f"{process}.stderr").read_text(errors="replace").splitlines()[-5:]
        problem = f"process {process}: it ended with {status}: " + "\n".join(said)
        yield from ((loader, [{}] * total, [problem]) for loader in loaders)
        return
    arrays = read_arrays(scratch / f"{process}.npz")
    problems = [str(problem) for problem in arrays.pop("problems")]
    for loader in loaders:
        answers = [{} for _ in range(total)]
        for key, array in arrays.items():
            if key.startswith(f"{loader}/"):
                number, _, name = key.removeprefix(f"{loader}/").partition("/")
                answers[int(number)][name] = array
        own = [problem for problem in problems if problem.startswith((f"{loader}:", "process:"))]
        yield loader, answers, own


def compare(got: Mapping[str, np.ndarray], question: Question) -> tuple[list[str], float]:
    """Problems with the answer to a question, and its largest difference.

    >>> question = Question("s", {}, {"score": np.array([0.5, 0.25])})
    >>> compare({"score": np.array([0.5, 0.75])}, question)
    (['score differs from the Keras model by 0.5 of 1: at [1] 0.75, expected 0.25'], 0.5)
    """
    problems = [
        f"{name} is NaN at {_first(np.isnan(array))}"
        for name, array in got.items()
        if array.dtype.kind == "f" and np.isnan(array).any()
    ]
    if not question.outputs:
        return problems, 0.0
    if set(got) != set(question.outputs):
        problems.append(f"the outputs are {sorted(got)}, expected {sorted(question.outputs)}")
    largest = 0.0
    for name in sorted(set(got) & set(question.outputs)):
        value, expected = got[name], np.asarray(question.outputs[name])
        if (value.shape, value.dtype.kind) != (expected.shape, expected.dtype.kind):
            problems.append(
                f"{name} is {value.dtype} of the shape {value.shape}, expected {expected.dtype} "
                f"of the shape {expected.shape}"
            )
        elif not value.size:
            continue
        elif value.dtype.kind == "f":
            difference, scale = _difference(value, expected)
            largest = max(largest, float(difference.max()))
            if difference.max() > TOLERANCE:
                problems.append(
                    f"{name} differs from the Keras model by {difference.max():.3g} of "
                    f"{scale:.3g}: {_shown(difference > TOLERANCE, value, expected)}"
                )
        else:
            decided = question.decided.get(name, True)
            if (differs := (value != expected) & decided).any():
                problems.append(
                    f"{name} differs from the Keras model: {_shown(differs, value, expected)}"
                )
    return problems, largest


def _difference(value, expected):
    """Of each number the difference as a fraction of the largest one, and that one."""
    value, expected = value.astype(np.float64), expected.astype(np.float64)
    never = ~(np.abs(expected) < NEVER)
    scale = max(1.0, float(np.max(np.abs(expected), where=~never, initial=0.0)))
    with np.errstate(invalid="ignore"):  # inf - inf, which equals
        difference = np.abs(value - expected) / np.where(never, np.abs(expected), scale)
    difference[value == expected] = 0.0
    difference[np.isnan(difference)] = np.inf
    return difference, scale


def _first(where):
    return np.argwhere(where)[0].tolist()


def _shown(differs, value, expected):
    """The first place where they differ, and both there."""
    place = tuple(np.argwhere(differs)[0])
    return f"at {_first(differs)} {value[place]}, expected {expected[place]}"
