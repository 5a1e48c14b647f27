"""The ablations of ALBERT's paper in miniature: Tables 3, 4, 5, 8, 11 to 13, and groups of layers.

    python -m examples.ablations table3 --text novels --out ablations
    python -m examples.ablations all --text novels --out ablations --jobs 2

On your own text. Each cell of a table is pretrained with several seeds and scored on held-out
files. Equal cells of several tables are trained once, a finished one never again, and one that was
stopped goes on: repeat the command. OUT/results has each table as .csv, .md and .png, and
ablations.md with all of them. They are written again from what is finished, also while another
process trains:

    python -m examples.ablations all --text novels --out ablations --results-only

The text: files, or folders of *.txt, UTF-8, where a blank line ends a document. Every tenth file is
held out, or --held-out names others. With --task-train and --task-dev, .tsv files of the columns
text, label, and pair where texts come in pairs, every cell is fine-tuned as well.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

from examples.ablations.cells import TABLES, cells_of
from examples.ablations.experiment import MATCHES, Experiment, prepare
from examples.ablations.running import run_cells
from examples.ablations.tables import write_results

SIZES = ("learning_rate", "length", "batch", "vocab_size")


def parsed(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.ablations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "table",
        nargs="+",
        choices=[*TABLES, "all"],
        metavar="TABLE",
        help=", ".join([*TABLES, "all"]),
    )
    add("--text", nargs="+", type=Path, required=True, metavar="CORPUS")
    add("--held-out", nargs="+", type=Path, default=[], metavar="CORPUS")
    add("--out", type=Path, required=True, metavar="FOLDER")
    add("--results", type=Path, help="folder of the tables; default: OUT/results")
    add("--results-only", action="store_true", help="train nothing")
    add("--match", choices=MATCHES, default="steps", help="what cells have the same of")
    add("--steps", type=int, default=Experiment.steps, help="of the base cell; default %(default)s")
    add("--minutes", type=float, help="of each cell, for --match time")
    add("--seeds", type=int, default=3, help="how many; default 3")
    add("--jobs", type=int, default=1, help="cells side by side; default 1")
    add("--learning-rate", type=float, default=Experiment.learning_rate, help="default %(default)s")
    add("--length", type=int, default=Experiment.length, help="default %(default)s")
    add("--batch", type=int, default=Experiment.batch, help="default %(default)s")
    add("--vocab-size", type=int, default=Experiment.vocab_size, help="default %(default)s")
    add("--task-train", type=Path, metavar="TSV")
    add("--task-dev", type=Path, metavar="TSV")
    arguments = parser.parse_args(argv)
    for path in (*arguments.text, *arguments.held_out, arguments.task_train, arguments.task_dev):
        if path is not None and not path.exists():
            parser.error(f"there is no {path}")
    if arguments.out.exists() and not arguments.out.is_dir():
        parser.error(f"--out must be a folder. Received: {arguments.out}.")
    if arguments.results_only and not (arguments.out / "data").exists():
        parser.error(f"--results-only needs what was trained. Received: --out {arguments.out}.")
    for name in ("steps", "minutes", "seeds", "jobs", *SIZES):
        value = getattr(arguments, name)
        if value is not None and not value > 0:
            flag = name.replace("_", "-")
            parser.error(f"--{flag} must be above 0. Received: {value}.")
    if (arguments.match == "time") != (arguments.minutes is not None):
        parser.error("--match time and --minutes belong together")
    if (arguments.task_train is None) != (arguments.task_dev is None):
        parser.error("--task-train and --task-dev belong together")
    for path in filter(None, (arguments.task_train, arguments.task_dev)):
        # Now, not when a cell has been pretrained.
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            columns = file.readline().strip().split("\t")
        if not {"text", "label"} <= set(columns):
            parser.error(f"{path} must have the columns text and label. Received: {columns[:5]}.")
    return arguments


def main(argv=None) -> None:
    arguments = parsed(argv)
    names = list(TABLES) if "all" in arguments.table else list(dict.fromkeys(arguments.table))
    experiment = Experiment(
        folder=arguments.out,
        match=arguments.match,
        steps=arguments.steps,
        minutes=arguments.minutes,
        learning_rate=arguments.learning_rate,
        length=arguments.length,
        batch=arguments.batch,
        vocab_size=arguments.vocab_size,
        task=arguments.task_train and (arguments.task_train, arguments.task_dev),
    )
    seeds, failed = range(arguments.seeds), []
    # Ended like this too, it stops what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        prepare(experiment, arguments.text, arguments.held_out)
        if not arguments.results_only:
            threads = max(1, (os.cpu_count() or 1) // arguments.jobs)
            cells = list(cells_of(names))
            failed = run_cells(experiment, cells, seeds, arguments.jobs, threads)
        write_results(experiment, names, seeds, arguments.results or arguments.out / "results")
    except ValueError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from error
    except KeyboardInterrupt:
        print("Stopped. Repeat the command to go on.", file=sys.stderr)
        raise SystemExit(130) from None
    if failed:
        listed = ", ".join(f"{run.cell.name} seed {run.seed}" for run in failed)
        raise SystemExit(f"Not finished: {listed}. The tables leave them out.")


if __name__ == "__main__":
    main()
