"""Options of commands that read the files of a task."""

from collections.abc import Callable
from typing import Annotated

import typer

from albert_keras.tasks.glue import GLUE_TASKS
from albert_keras.tasks.task_names import RACE, REGRESS, SQUAD
from albert_keras.tasks.text_examples import TextColumns

TextColumn = Annotated[str, typer.Option(help="Of your own files: the column of the text.")]
PairColumn = Annotated[
    str | None, typer.Option(help="The column of a second text, where texts are pairs.")
]
LabelColumn = Annotated[str, typer.Option(help="The column of the label, or of the number.")]
IdColumn = Annotated[
    str | None, typer.Option(help="The column of an id. Default: the row's place, from 0.")
]
SkipBroken = Annotated[
    bool,
    typer.Option("--skip-broken", help="Leave out rows that cannot be read, and name each."),
]


def refuse_unused(
    task: str,
    *,
    skip_broken: bool = False,
    null_threshold: float | None = None,
    temperature: float | None = None,
) -> None:
    """Raises ValueError for an option that this task does not have."""
    if skip_broken and task in (*SQUAD, RACE):
        raise ValueError(
            f"--skip-broken is for files of a row an example. Received: it for {task}, whose "
            "files are refused when they are damaged."
        )
    if null_threshold is not None and task != SQUAD[1]:
        raise ValueError(f"--null-threshold is of squad2. Received: it for {task}.")
    is_regression = task == REGRESS or (task in GLUE_TASKS and GLUE_TASKS[task].regression)
    if temperature is not None and is_regression:
        raise ValueError(
            f"--temperature softens logits. Received: it for {task}, whose model gives numbers."
        )


def columns_named(text: str, pair: str | None, label: str | None, id: str | None) -> TextColumns:
    """The columns of the user's own files."""
    return TextColumns(text, pair, label, id)


def on_broken(skip: bool) -> Callable[[ValueError], None] | None:
    """What to do about a row that cannot be read: name it once, or, for None, refuse it."""
    if not skip:
        return None
    named = set()  # a held-out file is read at every evaluation

    def name(error):
        if str(error) not in named:
            named.add(str(error))
            typer.echo(f"left out: {error}", err=True)

    return name


def say_note(note: str) -> None:
    """Shows a note."""
    typer.echo(f"note: {note}", err=True)
