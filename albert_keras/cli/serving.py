"""albert-keras export, predict, inspect: what comes after training."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from albert_keras.checkpoint_folder import find_checkpoint, find_tokenizer
from albert_keras.cli.checks import refuse_length, refuse_missing, refuse_out
from albert_keras.cli.startup import start_tensorflow
from albert_keras.tasks.task_names import NUMBER
from albert_keras.text.tokenizer_folder import find_vocabulary


def export(
    model: Annotated[Path, typer.Option(help="Checkpoint folder of a classifier.")],
    out: Annotated[Path, typer.Option(help="Folder of the served model, OUT/VERSION is made.")],
    version: Annotated[int, typer.Option(min=1, help="Version number.")] = 1,
    length: Annotated[
        int | None,
        typer.Option(min=3, help="Longest text in pieces. Default: that of fine-tuning."),
    ] = None,
) -> None:
    """Write a SavedModel that takes raw strings, and check that it answers."""
    refuse_missing(model, "--model")
    folder = find_checkpoint(model)
    refuse_length(length, folder)
    if (out / str(version)).exists():
        raise ValueError(
            f"--version must be a new one. Received: {version}, and {out / str(version)} exists. "
            f"The next is --version {_newest_version(out) + 1}."
        )
    refuse_out(out / str(version))
    start_tensorflow()
    from albert_keras.checkpoints import load_albert, load_head
    from albert_keras.export import export_classifier

    classifier, tokenizer = load_albert(folder)
    head = load_head(folder)
    if tokenizer is None or head["kind"] != "classifier":
        raise ValueError(
            f"An export needs a fine-tuned classifier with its vocabulary. Received: {folder}. "
            "Make one with `albert-keras finetune`."
        )
    if head["labels"] == [NUMBER]:
        raise ValueError(
            f"An export tells labels. Received: {folder}, a regression. Predict with it by "
            "`albert-keras predict-file`."
        )
    written = export_classifier(
        classifier,
        tokenizer,
        head["labels"],
        out,
        version=version,
        max_length=length or head["max_length"],
    )
    typer.echo(f"{written}: {len(head['labels'])} labels; the self-check passed")


def predict(
    text: Annotated[list[str], typer.Argument(help="Texts, or - for lines of standard input.")],
    export: Annotated[Path, typer.Option(help="Folder of an exported model.")],
) -> None:
    """Ask an exported SavedModel raw strings: label, score and text of each, tab-separated."""
    from albert_keras.served_folder import versions_in

    versions_in(export)
    start_tensorflow()
    from albert_keras.export import ask

    for label, score, line in ask(export, _standard_input() if text == ["-"] else text):
        # One line a text, whatever is in it; an argument that is no UTF-8 has surrogates.
        shown = " ".join(line.split()).encode(errors="replace").decode()
        typer.echo(f"{label}\t{score:.4f}\t{shown}")


def inspect(
    path: Annotated[Path, typer.Argument(help="A vocabulary, records, run, checkpoint or export.")],
    tokenize: Annotated[
        str | None, typer.Option(help="Show the pieces of this text, with its vocabulary.")
    ] = None,
) -> None:
    """Say what a folder holds: sizes, settings, parameters."""
    refuse_missing(path, "PATH")
    found = find_tokenizer(path)
    if tokenize is not None and found.is_dir() and not find_vocabulary(found):
        raise ValueError(f"--tokenize needs a vocabulary. Received: {path}, which has none.")
    start_tensorflow()
    from albert_keras.analysis import describe, pieces

    rows = [] if tokenize is None else pieces(path, tokenize)
    _show(str(path), describe(path))
    for piece, number, start, end in rows:
        typer.echo(f"{number}\t{piece}\t{start}:{end}")


def _shown(value):
    if value is None:
        return "not known"
    if type(value) is int:
        return f"{value:,}"
    return f"{value:.6g}" if type(value) is float else str(value)


def _newest_version(out):
    names = [path.name for path in out.iterdir()]
    return max(int(name) for name in names if name.isascii() and name.isdecimal())


def _standard_input():
    texts = []
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            texts.append(line.decode().rstrip("\r\n"))
        except UnicodeDecodeError as error:
            raise ValueError(
                f"Texts must be UTF-8. Received: standard input, line {number}: {error}."
            ) from None
    return texts


def _show(title, values):
    """A table on a terminal; elsewhere, where it would be cut to a width, a line for each value."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    shown = {name: _shown(value) for name, value in values.items()}
    if not console.is_terminal:
        for name, value in shown.items():
            typer.echo(f"{name}\t{value}")
        return
    # Text, not str: rich would read [brackets] in a label or a path as its own marks.
    table = Table(show_header=False, title=Text(title), title_justify="left")
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for name, value in shown.items():
        table.add_row(Text(name), Text(value))
    console.print(table)
