"""What commands that train share: their options, and a run from its folder to its scores."""

import dataclasses
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from albert_keras.cli.checks import refuse_schedule
from albert_keras.data.storage import is_remote
from albert_keras.run_folder import (
    refuse_run,
    run_recipe,
    run_settings,
)


class OptimizerName(StrEnum):
    """What --optimizer may be."""

    LAMB = "lamb"
    ADAMW = "adamw"


class Strategy(StrEnum):
    """What --strategy may be."""

    AUTO = "auto"
    CPU = "cpu"
    MIRRORED = "mirrored"
    MULTIWORKER = "multiworker"
    TPU = "tpu"


class Precision(StrEnum):
    """What --precision may be."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


Out = Annotated[str, typer.Option(help="Folder of the run; its model is in OUT/model.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in OUT.")]
Minutes = Annotated[
    float | None, typer.Option(help="Instead of --steps: as many as this machine makes.")
]
Optimizer = Annotated[OptimizerName, typer.Option(help="Weight decay and clipping are set.")]
StrategyOption = Annotated[Strategy, typer.Option("--strategy", help="Which devices to train on.")]
PrecisionOption = Annotated[
    Precision, typer.Option("--precision", help="What layers compute in; weights stay float32.")
]
LogEvery = Annotated[int, typer.Option(min=1, help="Steps between two lines of OUT/metrics.jsonl.")]
SaveEvery = Annotated[
    int, typer.Option(min=1, help="Steps between two saves of the training state.")
]


def checked_out(out: str, resume: bool) -> Path:
    """`out` as a path. Raises ValueError unless a run can begin, or go on, in it."""
    if is_remote(out):
        raise ValueError(
            f"--out of a run must be on this machine. Received: {out}. Copy it there in the end."
        )
    if resume:
        run_settings(out)
    else:
        refuse_run(out)
    return Path(out)


def timed(recipe, steps, minutes, warmup, resumed, count_steps):
    """The recipe with its steps and warm-up, which a run that goes on had settled before."""
    if resumed is not None and steps is None:
        steps = run_recipe(resumed)["total_steps"]
        if minutes is not None:
            typer.echo(
                f"note: the run goes on to its {steps:,} steps; --minutes counted them when it "
                "began.",
                err=True,
            )
    elif steps is None:
        steps = count_steps()
    refuse_schedule(recipe.learning_rate, warmup, steps)
    # A share of the run's own steps: other --steps are one difference, not two.
    whole = steps if resumed is None else run_recipe(resumed)["total_steps"]
    warmup_steps = round(warmup * whole) if warmup < 1 else round(warmup)
    return dataclasses.replace(recipe, total_steps=steps, warmup_steps=warmup_steps)


def refuse_stopped(reached: int, total: int) -> None:
    """Exits with 130 where the user stopped the training."""
    if reached < total:
        typer.echo(
            f"Stopped at step {reached:,} of {total:,}, which is saved. To go on, repeat the "
            "command with --resume.",
            err=True,
        )
        raise typer.Exit(130)


def show_scores(scores: dict) -> None:
    """Prints the numbers among the scores."""
    shown = {name: value for name, value in scores.items() if isinstance(value, float | int)}
    typer.echo("  ".join(f"{name} {value:.4g}" for name, value in shown.items()))
