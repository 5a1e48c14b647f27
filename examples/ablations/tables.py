"""The results of an experiment as CSV, Markdown and plots."""

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

import albert_keras
from albert_keras.json_file import read_json
from albert_keras.new_file import write_file
from albert_keras.report.machine import describe_machine
from examples.ablations.cells import BASE, TABLES, Table
from examples.ablations.experiment import HELD_OUT_CHARACTERS, Experiment
from examples.ablations.measures import median_and_spread, results_of
from examples.ablations.plots import plot_table


def write_results(
    experiment: Experiment, names: Sequence[str], seeds: Sequence[int], folder: Path
) -> None:
    """A .csv, .md and .png for each table, and ablations.md with those of all tables."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        table = TABLES[name]
        rows = {key: results_of(experiment, cell, seeds) for key, cell in table.rows.items()}
        write_file(folder / f"{name}.csv", _csv(table, rows).encode())
        if any(rows.values()):
            plot_table(experiment, name, rows, folder / f"{name}.png")
        write_file(folder / f"{name}.md", _section(name, rows).encode())
    parts = [_settings(experiment)]
    parts += [file.read_text() for name in TABLES if (file := folder / f"{name}.md").exists()]
    write_file(folder / "ablations.md", "\n".join(parts).encode())
    print(f"{folder / 'ablations.md'}: the tables, with their settings", flush=True)


def _csv(table: Table, rows: dict) -> str:
    """A line for each seed of each row, with all that was measured."""
    lines = [
        {**dict(zip(table.columns, key, strict=True)), "seed": seed}
        | {"cell": table.rows[key].name, **result}
        for key, results in rows.items()
        for seed, result in results.items()
    ]
    file = io.StringIO()
    writer = csv.DictWriter(file, lines[0] if lines else table.columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


# What a table shows, in this order, and how.
SHOWN: dict[str, tuple[str, Callable[[float], str]]] = {
    "parameters": ("parameters", lambda value: f"{value:,.0f}"),
    "step_flops": ("GFLOPs a step", lambda value: f"{value / 1e9:.2f}"),
    "steps_in_all": ("steps in all", lambda value: f"{value:,.0f}"),
    "flops_in_all": ("TFLOPs in all", lambda value: f"{value / 1e12:.1f}"),
    "mlm_loss": ("masked words, nats", lambda value: f"{value:.3f}"),
    "mlm_accuracy": ("right, %", lambda value: f"{100 * value:.1f}"),
    "sop_accuracy": ("SOP, % right", lambda value: f"{100 * value:.1f}"),
    "nsp_accuracy": ("NSP, % right", lambda value: f"{100 * value:.1f}"),
    "task_accuracy": ("task, % right", lambda value: f"{100 * value:.1f}"),
    "seconds_in_all": ("seconds in all", lambda value: f"{value:,.0f}"),
    "tokens_per_second": ("tokens/s", lambda value: f"{value:,.0f}"),
}


def _section(name: str, rows: dict) -> str:
    table = TABLES[name]
    some = next((one for results in rows.values() for one in results.values()), {})
    shown = {key: SHOWN[key] for key in SHOWN if key in some}
    header = [*table.columns, "seeds", *(title for title, _ in shown.values())]
    lines = [f"## {table.title}", ""]
    lines += [_row(header), _row(["---"] * len(header))]
    for key, results in rows.items():
        values = [
            _spread([one[name] for one in results.values() if name in one], show)
            for name, (_, show) in shown.items()
        ]
        lines.append(_row([*key, str(len(results)), *values]))
    lines += ["", f"The paper: {table.paper}", ""]
    if some:
        lines += [f"![{table.title}]({name}.png)", ""]
    return "\n".join(lines)


def _row(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"


def _spread(values: Sequence[float], show: Callable[[float], str]) -> str:
    """The median, with the lowest and the highest where they are others."""
    if not values:
        return "-"
    median, lowest, highest = map(show, median_and_spread(values))
    return median if lowest == highest else f"{median} ({lowest} to {highest})"


def _settings(experiment: Experiment) -> str:
    settings = experiment.settings()
    text = settings["text"]
    budget = {
        "steps": f"{experiment.steps:,} steps each",
        "flops": f"the FLOPs of {experiment.steps:,} steps of the base cell each",
        "time": f"{experiment.minutes} minutes each, as many steps as that machine makes in them",
    }[experiment.match]
    records = experiment.folder / "data"
    pieces = read_json(records / "train" / "manifest.json")["counts"]["tokens"]
    held_out = len(text["held_out"])
    machine = ", ".join(f"{name} {value}" for name, value in describe_machine().items())
    return f"""# Ablations in miniature

Written by `python -m examples.ablations`; a reading of it is for other pages. Median of the seeds,
with the lowest and the highest in brackets.

- **Budget**: {budget}. A run that grew from others comes after theirs; "in all" counts them.
  Where a table divides the budget, the share stands in the name of the cell, in the .csv (x0.5).
- **Base cell**: H = {BASE.hidden_size}, E = {BASE.embedding_size}, L = {BASE.num_hidden_layers},
  H/32 heads, I = 4 H, sharing {BASE.sharing}, dropout {BASE.dropout:g}, {BASE.objective.upper()};
  a table says what it changes. Initial weights of standard deviation
  0.02 (768 / H)^0.5.
- **Training**: batches of {experiment.batch} rows of {experiment.length} pieces, AdamW with the
  peak rate {experiment.learning_rate:g} at every size, warm-up over
  {100 * experiment.warmup:g} % of the steps, then linear decay; n-grams up to 3 words over
  {100 * experiment.mask_rate:g} % of the pieces.
- **Text**: {len(text["train"])} files, {pieces:,} pieces of
  {experiment.vocab_size:,}. Held out: the first {HELD_OUT_CHARACTERS:,} characters of {held_out}
  other files.
- **Scores**: 15 % of the held-out pieces masked, all of them hidden, the same for every model; a
  pair head is scored on both tasks, whichever it was trained for.{_held_out(experiment)}
- **Cost**: parameters of the encoder with its pooler; FLOPs of the matrix products, backward pass
  included; seconds of training alone, with other processes on the same machine.
- **Machine**: {machine}, albert_keras {albert_keras.__version__}.
"""


def _held_out(experiment: Experiment) -> str:
    """How much there is to score, and by what a model must beat, once it is known."""
    for file in (experiment.folder / "cells").glob("*/seed*/scores.json"):
        (scores,) = read_json(file).values()
        return (
            f"\n  {scores['masked_tokens']:,} masked pieces of a unigram entropy of "
            f"{scores['unigram_entropy']:.3f} nats; {scores.get('sop_examples', 0):,} pairs of "
            f"SOP, {scores.get('nsp_examples', 0):,} of NSP."
        )
    return ""
