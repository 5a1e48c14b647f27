"""From raw strings to logits, ALBERT-base on two cores, ours next to the peers, in one run.

    make .venv-parity/installed     # Hugging Face and keras-hub, 3.4 GB
    python -m benchmarks.serving    # with ALBERT_KERAS_DATA: official vocabulary, English books
    python -m benchmarks.serving --folder exports --only saved-model litert-int8 hugging-face

Two questions: one text of ten words, and 32 texts of 10 to 200 words. Every contender is a process
that waits; a round lets one after the other answer, so a machine that gets slower or faster favours
none. All have the same text and, as `pieces` shows, nearly the same pieces. What they are:

    saved-model                   our SavedModel, float32, through tf.saved_model.load
    saved-model-bfloat16          the same, as served with --mixed_precision=bfloat16
    onnx, litert-int8, onnx-int8  our exports for devices, float32 and 8 bits, with the
                                  sentencepiece library, rows sorted by length, in slices
    hugging-face..., keras-hub... see `serving_peers`

On a processor that is not Intel's, torch's matrix products in float32 take a slow path; a library
of one line, preloaded, takes them off it. No user has it, but it is their best: "-unslowed".

Weights are random. `--folder` keeps the exports and takes those that are there; a SavedModel of
one's own may stand in its `served`. One JSON line a contender, and one of the ratios to the best
peer: milliseconds for the first question, seconds for the second.
"""

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from benchmarks.served_texts import MAX_LENGTH, read_answer

ROOT = Path(__file__).resolve().parents[1]
EXPORTS = {
    "saved-model": "served",
    "saved-model-bfloat16": "served",
    "onnx": "onnx",
    "litert-int8": "litert-int8",
    "onnx-int8": "onnx-int8",
}
PEERS = ("hugging-face", "hugging-face-sorted", "hugging-face-compiled")
PEERS += tuple(f"{name}-unslowed" for name in PEERS) + ("keras-hub", "keras-hub-sorted")


def main(argv=None):
    data = Path(os.environ.get("ALBERT_KERAS_DATA", ""))
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="of the exports; default: a temporary one")
    parser.add_argument("--corpus", type=Path, default=data / "corpus" / "eltec-eng")
    parser.add_argument("--vocabulary", default=data / "vocabulary" / "30k-clean.model")
    parser.add_argument("--peers", type=Path, default=ROOT / ".venv-parity" / "bin" / "python")
    parser.add_argument("--only", nargs="+", choices=(*EXPORTS, *PEERS))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--short", type=int, default=25, help="times a round, one text")
    parser.add_argument("--batch", type=int, default=2, help="times a round, 32 texts")
    arguments = parser.parse_args(argv)
    for path in (arguments.corpus, Path(arguments.vocabulary)):
        if not path.exists():
            parser.error(f"{path} is missing: name one, or set ALBERT_KERAS_DATA")
    names = arguments.only or [*EXPORTS, *PEERS]
    if not arguments.peers.exists() and set(names) & set(PEERS):
        print("Without the environment of `make parity`, the peers are left out.", file=sys.stderr)
        names = [name for name in names if name in EXPORTS]

    with contextlib.ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make_exports(folder, arguments.vocabulary, set(names))
        unslowed = unslowing_library(stack)
        names = [name for name in names if unslowed or not name.endswith("-unslowed")]
        contenders = {
            name: stack.enter_context(contender(name, folder, arguments, unslowed))
            for name in names
        }
        results = {name: {"short": [], "batch": []} for name in names}
        for round_ in range(arguments.rounds):
            for name in names if round_ % 2 == 0 else names[::-1]:
                for question in ("short", "batch"):
                    times = getattr(arguments, question)
                    print(question, times, file=contenders[name].stdin, flush=True)
                    results[name][question].append(read_answer(contenders[name].stdout))
    medians = {name: report(name, results[name]) for name in names}
    report_ratios(medians)


def make_exports(folder: Path, vocabulary: str, wanted: set[str]) -> None:
    """Writes what is missing: the checkpoint for Hugging Face, and the exports of it."""
    missing = {EXPORTS[name]: name for name in wanted & set(EXPORTS)}
    missing = {made: name for made, name in missing.items() if not (folder / made).exists()}
    if (folder / "model").exists() and not missing:
        return
    from albert_keras.export.edge import export_edge

    from albert_keras import Tokenizer, load_albert, save_albert
    from albert_keras.export import export_saved_model
    from benchmarks.random_model import LABELS, random_classifier

    if not (folder / "model").exists():
        model = random_classifier()
        tokenizer = Tokenizer.load(vocabulary)
        save_albert(
            *(model, folder / "model"), tokenizer=tokenizer, labels=LABELS, max_length=MAX_LENGTH
        )
    model, tokenizer = load_albert(folder / "model")
    settings = {"labels": LABELS, "max_length": MAX_LENGTH}
    for made, name in missing.items():
        target = folder / made
        if made == EXPORTS["saved-model"]:
            export_saved_model(model, tokenizer, target, **settings)
        else:
            export_edge(model, tokenizer, target, format=name, **settings)


def unslowing_library(stack: contextlib.ExitStack) -> Path | None:
    """What makes MKL take its fast path on any processor; None where that is taken anyway, or
    there is no compiler."""
    if "GenuineIntel" in Path("/proc/cpuinfo").read_text() or platform.machine() != "x86_64":
        return None
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    source, library = folder / "mkl.c", folder / "mkl.so"
    source.write_text("int mkl_serv_intel_cpu_true(void) { return 1; }\n")
    made = subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=False)
    return library if made.returncode == 0 else None


def contender(name: str, folder: Path, arguments, unslowed: Path | None):
    """A process that has its model and has tried out both questions, and waits for more."""
    # Some environments slow NumPy's matrix products down with these.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    environment["OMP_NUM_THREADS"] = "2"
    if name in EXPORTS:
        python, module, made = sys.executable, "benchmarks.serving_ours", folder / EXPORTS[name]
    else:
        python, module, made = str(arguments.peers), "benchmarks.serving_peers", folder / "model"
    if name.endswith("-unslowed"):
        environment["LD_PRELOAD"] = str(unslowed)
    command = [python, "-m", module, name.removesuffix("-unslowed"), made, arguments.corpus]
    process = subprocess.Popen(
        list(map(str, command)),
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    print(f"{name}: {read_answer(process.stdout)}", file=sys.stderr, flush=True)
    return process


def report(name: str, answers: dict[str, list[dict]]) -> dict[str, float]:
    """Prints what a contender took; gives the medians in seconds."""
    line, medians = {"benchmark": "serving", "contender": name}, {}
    for question, rounds in answers.items():
        seconds = np.concatenate([answer["seconds"] for answer in rounds])
        tokenizing = np.concatenate([answer["tokenizing"] for answer in rounds])
        unit, factor = ("ms", 1000) if question == "short" else ("s", 1)
        # Of the rounds, a median each: how much the machine, or what else ran on it, changed.
        of_rounds = [np.median(answer["seconds"]) for answer in rounds]
        line |= {
            f"{question}_{unit}_p50": round(factor * float(np.percentile(seconds, 50)), 3),
            f"{question}_{unit}_p99": round(factor * float(np.percentile(seconds, 99)), 3),
            f"{question}_{unit}_best": round(factor * float(seconds.min()), 3),
            f"{question}_{unit}_of_rounds": [
                round(factor * float(f(of_rounds)), 3) for f in (np.min, np.max)
            ],
            f"{question}_tokenizing": round(float(np.median(tokenizing) / np.median(seconds)), 4),
            f"{question}_pieces": rounds[0]["pieces"],
            f"{question}_samples": len(seconds),
        }
        medians[question] = float(np.median(seconds))
    print(json.dumps(line), flush=True)
    return medians


def report_ratios(medians: dict[str, dict[str, float]]) -> None:
    peers = [name for name in medians if name in PEERS]
    if not peers:
        return
    line = {"benchmark": "serving_ratios"}
    for question in ("short", "batch"):
        best = min(peers, key=lambda name: medians[name][question])
        line[f"{question}_best_peer"] = best
        for name in medians:
            if name in EXPORTS:
                ratio = medians[name][question] / medians[best][question]
                line[f"{question}_{name}"] = round(ratio, 3)
    line |= {"machine": platform.machine(), "cpus": os.cpu_count()}
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
