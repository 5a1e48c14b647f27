"""What batches of similar length spare: `fit` of a classifier of pairs on them and on full padding.

    python -m benchmarks.finetuning_batches                     # QNLI in ALBERT_KERAS_DATA
    python -m benchmarks.finetuning_batches --pairs pairs.tsv --first premise --second hypothesis

One process, one model, the same examples. A round is a fit of each kind: batches of similar length,
batches of any rows padded to their longest, and batches padded to the maximum. Which comes first
changes from round to round, so that a machine that gets slower or faster favours none. Each fit has
steps of its own out of whole pools, so that short and long batches are there as often as in an
epoch. The first rounds, in which every width is met for the first time, are not counted.

One JSON line: examples a second, by the clock and of this process on all its cores together, which
a busy machine hardly changes, median and range over the rounds; by how much the latter is above
that of padding to the maximum, round by round; how many of the computed positions hold a piece.
"""

import argparse
import itertools
import json
import os
import platform
import time
from pathlib import Path

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

from albert_keras import AdamW, Tokenizer, build_albert
from albert_keras.task_models import build_classifier
from albert_keras.tasks.encoded_rows import EncodedRows, encoded_blocks
from albert_keras.tasks.length_batches import length_batches


def main(argv=None):
    data = Path(os.environ.get("ALBERT_KERAS_DATA", ""))
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=Path, default=data / "glue" / "QNLI-dev-2000.tsv")
    parser.add_argument("--first", default="question", help="column of the first text")
    parser.add_argument("--second", default="sentence")
    parser.add_argument("--vocabulary", type=Path, default=data / "vocabulary" / "30k-clean.model")
    parser.add_argument("--preset", default="base")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=16, help="batches of a pool, and of a fit")
    arguments = parser.parse_args(argv)
    for path in (arguments.pairs, arguments.vocabulary):
        if not path.is_file():
            parser.error(f"{path} is missing: name one, or set ALBERT_KERAS_DATA")

    tokenizer = Tokenizer.load(arguments.vocabulary)
    lines = arguments.pairs.read_text(encoding="utf-8").splitlines()
    header, *table = (line.split("\t") for line in lines)
    columns = [header.index(name) for name in (arguments.first, arguments.second)]
    # The time is not the labels': any will do.
    examples = (
        ([row[column] for column in columns], {"logits": place % 2})
        for place, row in enumerate(table)
    )
    rows = EncodedRows.concatenated(encoded_blocks(examples, tokenizer, arguments.length))
    model = build_classifier(
        build_albert(
            arguments.preset,
            vocab_size=tokenizer.vocab_size,
            num_hidden_layers=arguments.layers,
        ),
        num_labels=2,
    )
    model.compile(
        AdamW(1e-5),
        loss={"logits": tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
    )
    common = {"batch_size": arguments.batch, "max_length": arguments.length}
    kinds = {
        "similar": length_batches(rows, pool_batches=arguments.steps, **common),
        "longest": length_batches(rows, pool_batches=1, **common),
        "maximum": length_batches(rows, multiple=arguments.length, **common),
    }
    orders = list(itertools.permutations(kinds))
    seconds = {name: [] for name in kinds}
    # The pools of the first epoch, which begin at a multiple of their size.
    pools = len(rows) // arguments.batch // arguments.steps
    if not pools:
        parser.error(f"{arguments.pairs} has fewer than --batch times --steps pairs")
    for round_ in range(1 + arguments.rounds):
        for name in orders[round_ % len(orders)]:
            first = round_ % pools * arguments.steps
            elapsed = fit_seconds(model, kinds[name](first), arguments.steps)
            if round_:
                seconds[name].append(elapsed)

    examples_of_a_fit = arguments.batch * arguments.steps
    seconds = {name: np.array(of_rounds).T for name, of_rounds in seconds.items()}  # 2, rounds
    result = {}
    for name, (clock, processor) in seconds.items():
        result[name] = {
            "examples_per_second": spread(examples_of_a_fit / clock),
            "examples_per_processor_second": spread(examples_of_a_fit / processor),
            "to_maximum": spread(seconds["maximum"][1] / processor),
            "pieces_of_positions": round(filled(kinds[name](0).take(pools * arguments.steps)), 3),
        }
    settings = ("preset", "layers", "length", "batch", "rounds", "steps")
    print(
        json.dumps(
            {
                "benchmark": "finetuning_batches",
                "pairs": arguments.pairs.name,
                **{name: getattr(arguments, name) for name in settings},
                "mean_pieces": round(float(rows.lengths.mean()), 1),
                **result,
                "tensorflow": tf.__version__,
                "machine": platform.machine(),
                "cpus": os.cpu_count(),
            }
        )
    )


def fit_seconds(model, batches, steps):
    """By the clock, and of all cores together."""
    start = time.monotonic(), time.process_time()
    model.fit(batches, steps_per_epoch=steps, verbose=0, shuffle=False)
    return time.monotonic() - start[0], time.process_time() - start[1]


def spread(values):
    """Median, least and most."""
    return [round(float(f(values)), 2) for f in (np.median, np.min, np.max)]


def filled(batches):
    """The share of the computed positions that hold a piece."""
    masks = [inputs["padding_mask"] for inputs, _ in batches.as_numpy_iterator()]
    return sum(int(mask.sum()) for mask in masks) / sum(mask.size for mask in masks)


if __name__ == "__main__":
    main()
