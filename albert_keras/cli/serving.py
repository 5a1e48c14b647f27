"""albert-keras export, predict, inspect: what comes after training."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    model: Annotated[Path, typer.Option(help="Checkpoint folder of a classifier.")],
    out: Annotated[Path, typer.Option(help="Folder of the served model, OUT/VERSION is made.")],
    version: Annotated[int, typer.Option(help="Version number.")] = 1,
    length: Annotated[
        int | None, typer.Option(help="Longest text in pieces. Default: the model's positions.")
    ] = None,
) -> None:
    """Write a SavedModel that takes raw strings, and check that it answers."""
    from albert_keras.checkpoints import find_checkpoint, load_albert, load_labels
    from albert_keras.export import export_classifier

    folder = find_checkpoint(model)
    classifier, tokenizer = load_albert(folder)
    labels = load_labels(folder)
    if tokenizer is None or labels is None:
        raise ValueError(
            f"An export needs a fine-tuned classifier with its vocabulary. Received: {folder}. "
            "Make one with `albert-keras finetune`."
        )
    written = export_classifier(
        classifier, tokenizer, labels, out, version=version, max_length=length
    )
    typer.echo(f"{written}: {len(labels)} labels; the self-check passed")


def predict(
    text: Annotated[list[str], typer.Argument(help="Texts, or - for lines of standard input.")],
    export: Annotated[Path, typer.Option(help="Folder of an exported model.")],
) -> None:
    """Ask an exported SavedModel raw strings: label, score and text of each, tab-separated."""
    import sys

    from albert_keras.export import ask

    lines = [line.rstrip("\n") for line in sys.stdin] if text == ["-"] else text
    for label, score, line in ask(export, lines):
        typer.echo(f"{label}\t{score:.4f}\t{line}")


def inspect(
    path: Annotated[Path, typer.Argument(help="A vocabulary, records, run, checkpoint or export.")],
    tokenize: Annotated[
        str | None, typer.Option(help="Show the pieces of this text, with its vocabulary.")
    ] = None,
) -> None:
    """Say what a folder holds: sizes, settings, parameters."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from albert_keras.analysis import describe, pieces

    # Text, not str: rich would read [brackets] in a label or a path as its own marks.
    table = Table(show_header=False, title=Text(str(path)), title_justify="left")
    for name, value in describe(path).items():
        table.add_row(Text(name), Text(f"{value:,}" if type(value) is int else str(value)))
    Console().print(table)
    if tokenize is not None:
        for piece, number, start, end in pieces(path, tokenize):
            typer.echo(f"{number}\t{piece}\t{start}:{end}")
