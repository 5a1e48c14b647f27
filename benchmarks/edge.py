"""Size, accuracy and latency of the formats for devices, ALBERT-base, in one process.

    python -m benchmarks.edge                       # with ALBERT_KERAS_DATA: official vocabulary
    python -m benchmarks.edge --checkpoint runs/mail/model --formats litert-int8 onnx-int8

Rows of random pieces without padding, integers to scores, on two threads; the formats take turns,
round by round. `keras` is the model itself in a graph, for comparison. Without a checkpoint the
weights are random, which says nothing about labels, and about differences only how they are with
such weights.

One JSON line a format: bytes of the file and what that is of the parameters; the largest difference
of an output, of its largest value, and the equal labels, on the built-in texts of the export; for
each shape the median, least and greatest milliseconds.
"""

import argparse
import json
import os
import platform
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from albert_keras.export.edge import FORMATS, export_edge, load_edge

from albert_keras import Tokenizer, build_albert, load_albert
from albert_keras.checkpoints import load_head
from albert_keras.task_models import build_classifier

THREADS = 2
SHAPES = ("1x16", "1x64", "1x128", "8x64")


def main(argv=None):
    data = Path(os.environ.get("ALBERT_KERAS_DATA", ""))
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkpoint", type=Path, help="a classifier; default: random weights")
    parser.add_argument("--vocabulary", default=data / "vocabulary" / "30k-clean.model")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--shapes", nargs="+", default=SHAPES, help="rows x length")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args(argv)
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    if arguments.checkpoint:
        model, tokenizer = load_albert(arguments.checkpoint)
        labels = load_head(arguments.checkpoint)["labels"]
    elif Path(arguments.vocabulary).exists():
        tokenizer, labels = Tokenizer.load(arguments.vocabulary), ["no", "yes"]
        model = build_classifier(build_albert("base"), len(labels))
    else:
        parser.error(f"{arguments.vocabulary} is missing: name one, or set ALBERT_KERAS_DATA")

    run_model = tf.function(lambda inputs: model(inputs, training=False), reduce_retracing=True)
    runs, found = {"keras": run_model}, {"keras": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.formats:
            target = export_edge(model, tokenizer, Path(folder, name), format=name, labels=labels)
            runs[name], metadata = load_edge(target, threads=THREADS)
            size = metadata["bytes"][metadata["file"]]
            weights = metadata["parameters"] * FORMATS[name].weight_bytes
            found[name] = {
                "bytes": size,
                "of_parameters": round(size / weights, 3),
                "largest_difference": metadata["accuracy"]["largest_difference"],
                "equal_labels": metadata["accuracy"]["equal_labels"],
            }
        milliseconds = measured(runs, arguments.shapes, arguments.rounds, tokenizer.vocab_size)
    for name, values in found.items():
        for shape in arguments.shapes:
            values[f"ms_{shape}"] = [
                round(float(f(milliseconds[name][shape])), 2) for f in (np.median, min, max)
            ]
        line = {"benchmark": "edge", "format": name, **values}
        print(json.dumps(line | {"machine": platform.machine(), "cpus": os.cpu_count()}))


def measured(runs, shapes, rounds, vocab_size) -> dict[str, dict[str, list[float]]]:
    draws = np.random.default_rng(0)
    batches = {}
    for shape in shapes:
        ids = draws.integers(5, vocab_size, tuple(map(int, shape.split("x")))).astype(np.int32)
        batches[shape] = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
    milliseconds = {name: {shape: [] for shape in shapes} for name in runs}
    for round_ in range(1 + rounds):  # the first one makes what is made once
        for name, run in runs.items():
            for shape, batch in batches.items():
                run(batch)  # while the threads of the runtime before stop looking for work
                start = time.perf_counter()
                np.asarray(run(batch)["logits"])
                if round_ > 0:
                    milliseconds[name][shape].append(1000 * (time.perf_counter() - start))
    return milliseconds


if __name__ == "__main__":
    main()
