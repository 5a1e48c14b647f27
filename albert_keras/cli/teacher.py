"""What commands that train share about a teacher: their options, and what is refused."""

import math
from pathlib import Path
from typing import Annotated

import typer

from albert_keras.cli.checks import refuse_missing

TeacherFolder = Annotated[
    Path | None,
    typer.Option(help="Checkpoint of the same task and vocabulary, whose answers are learned too."),
]
Temperature = Annotated[
    float | None, typer.Option(help="What --teacher's logits are divided by. [default: 2]")
]
DistillationWeight = Annotated[
    float | None,
    typer.Option(help="Share of --teacher's answers in the loss, 0 to 1. [default: 0.5]"),
]
DistillHiddenWeight = Annotated[
    float | None,
    typer.Option(help="Of the error to the outputs of --teacher's layers. [default: 0]"),
]


def teacher_settings(
    teacher: Path | None,
    *,
    temperature: float | None,
    distillation_weight: float | None,
    distill_hidden_weight: float | None,
) -> dict[str, float]:
    """The settings of `Distillation` that were given.

    Raises:
        ValueError: the teacher is not there, a number is out of range, or there is no teacher.
    """
    if teacher is not None:
        refuse_missing(teacher, "--teacher")
    given = {}
    for flag, value, name, rule, highest in (
        ("--temperature", temperature, "temperature", "above 0 and at most 100", 100),
        ("--distillation-weight", distillation_weight, "weight", "between 0 and 1", 1),
        ("--distill-hidden-weight", distill_hidden_weight, "hidden_weight", "at least 0", math.inf),
    ):
        if value is None:
            continue
        if teacher is None:
            raise ValueError(f"{flag} is of --teacher. Received: {value} without one.")
        lowest = math.ulp(0) if name == "temperature" else 0
        if not lowest <= value <= highest or value == math.inf:
            raise ValueError(f"{flag} must be {rule}. Received: {value}.")
        given[name] = value
    return given
