"""Proof that an export answers like the Keras model, given by a process that has no such model.

`check_export` starts `clean_process.py` as a script, and compares what it answers.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from . import clean_process
from .clean_process import LOADERS, OUTPUTS

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
            # -P: the folder of that file, which has siblings, stays off the import path.
            [sys.executable, "-P", clean_process.__file__, str(folder), str(asked), str(answered)],
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
