"""albert-keras inspect: what a folder holds, and what a model costs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from albert_keras.analysis.cost_tables import (
    beside_bert,
    cost_tables,
    matched_by_flops,
    matched_by_time,
    measured_tables,
)
from albert_keras.analysis.setting import POLICIES, Setting
from albert_keras.checkpoint_folder import find_tokenizer
from albert_keras.cli.fields import Set, fields_in
from albert_keras.cli.startup import start_tensorflow
from albert_keras.config import PRESETS, config_from
from albert_keras.recipes import PretrainingRecipe
from albert_keras.text.tokenizer_folder import find_vocabulary

Policy = StrEnum("Policy", {name.upper(): name for name in POLICIES})


def inspect(
    what: Annotated[
        str,
        typer.Argument(
            metavar="PRESET|FOLDER",
            help=f"A vocabulary, records, run, checkpoint or export; or {', '.join(PRESETS)}.",
        ),
    ],
    tokenize: Annotated[
        str | None, typer.Option(help="Show the pieces of this text, with its vocabulary.")
    ] = None,
    set_: Set = None,
    length: Annotated[
        int | None,
        typer.Option(min=5, help="Pieces of a row, for the costs. Default: 128, if it has them."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Rows of a step, for the costs.")] = 32,
    policy: Annotated[Policy, typer.Option(help="What layers compute in.")] = Policy.FLOAT32,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="As `pretrain --recompute`, for the costs.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Run it here, beside what is predicted.")
    ] = False,
    match_flops: Annotated[
        str | None,
        typer.Option(help="Another preset or folder: steps of the two that are as many FLOPs."),
    ] = None,
    match_time: Annotated[
        str | None, typer.Option(help="The same by time, for which both are run here.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Training steps to match. [default: 125000, the paper's]"),
    ] = None,
) -> None:
    """Say what a folder holds, and what a model costs beside the BERT of the same size."""
    fields = fields_in(set_)
    config = _preset(what, fields)
    others = {name: _preset(name, {}) for name in {match_flops, match_time} - {None}}
    if config is None and fields:
        raise ValueError(f"--set is for presets. Received: it with the folder {what}.")
    name = " ".join([what, *(set_ or ())])  # one that --set changes is another model
    if steps is not None and not others:
        raise ValueError(
            f"--steps is of --match-flops and --match-time. Received: {steps} without them."
        )
    if name in others:
        raise ValueError(f"Steps are matched with another model. Received: {what} with itself.")
    if tokenize is not None:
        found = find_tokenizer(what)
        if config is not None or (found.is_dir() and not find_vocabulary(found)):
            raise ValueError(f"--tokenize needs a vocabulary. Received: {what}, which has none.")
    if config is None or None in others.values():
        start_tensorflow()
        from albert_keras.analysis.folders import config_in, describe, pieces

        others = {name: _found(name, one or config_in(name)) for name, one in others.items()}
        if config is None:
            config = config_in(what)
            if measure or others:
                _found(what, config)
            rows = [] if tokenize is None else pieces(what, tokenize)
            _show(what, describe(what))
            for piece, number, start, end in rows:
                typer.echo(f"{number}\t{piece}\t{start}:{end}")
    if config is None:
        return
    steps = steps or PretrainingRecipe.total_steps
    setting = Setting(
        batch, length or min(128, config.max_position_embeddings), str(policy), recompute
    )
    models = beside_bert(name, config)
    _show_tables(cost_tables(models, setting))
    if match_flops is not None:
        pair = {name: config, match_flops: others[match_flops]}
        _show_tables([matched_by_flops(pair, setting, steps)])
    if measure:
        _show_tables(measured_tables(models, setting))
    if match_time is not None:
        pair = {name: config, match_time: others[match_time]}
        _show_tables([matched_by_time(pair, setting, steps)])


def _preset(name, fields):
    """The preset of that name, or None for a folder or file, which is looked at first."""
    if Path(name).exists():
        if name in PRESETS:
            typer.echo(
                f"note: {name} is also a preset; this is the folder. For the preset, call from "
                "another one.",
                err=True,
            )
        return None
    if name in PRESETS:
        return config_from(name, fields)
    raise ValueError(
        f"It must be a folder that is there, or a preset: {', '.join(PRESETS)}. Received: {name}, "
        "which does not exist."
    )


def _found(name, config):
    if config is None:
        raise ValueError(f"Costs are of a model. Received: {name}, which has none.")
    return config


def _shown(value):
    if value is None:
        return "not known"
    if type(value) is int:
        return f"{value:,}"
    return f"{value:.6g}" if type(value) is float else str(value)


def _show(title, values):
    _show_rows(title, (), [(name, _shown(value)) for name, value in values.items()])


def _show_tables(tables):
    for table in tables:
        _show_rows(table.title, table.columns, table.rows)


def _show_rows(title, columns, rows):
    """A table on a terminal; elsewhere, where it would be cut to a width, a line for each row,
    below one of the columns' names if they have any."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        for row in [(title, *columns), *rows] if columns else rows:
            typer.echo("\t".join(row))
        return
    # Text, not str: rich would read [brackets] in a label or a path as its own marks.
    table = Table(show_header=bool(columns), title=Text(title), title_justify="left")
    table.add_column(overflow="fold")
    for column in columns or ("",):
        table.add_column(Text(column), overflow="fold", justify="right" if columns else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
