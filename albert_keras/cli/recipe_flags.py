"""From the flags of `finetune` to its recipe, as far as it can be told without TensorFlow."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from albert_keras.checkpoint_folder import positions_in
from albert_keras.cli.checks import refuse_duration, refuse_schedule
from albert_keras.tasks.finetuning_recipe import RECIPES, FinetuningRecipe

# Without a recipe; how long to train, the user says. A batch is as wide as its texts are long, so
# the length costs nothing where they are short.
USUAL = FinetuningRecipe(max_length=512, epochs=1, checkpoint_every=None)

UNTIMED = 10**9


def chosen_recipe(
    task: str,
    recipe: str | None,
    *,
    steps: int | None,
    epochs: float | None,
    minutes: float | None,
    **flags: Any,
) -> FinetuningRecipe:
    """The recipe of that name, or the task's, with the flags that were given in its place.

    With `minutes` it has `UNTIMED` steps, until they are timed.

    Raises:
        ValueError: a number that no run can have; no duration, or several.
    """
    name = recipe or (task if task in RECIPES else None)
    chosen = RECIPES[name] if name else USUAL
    changed = {field: value for field, value in flags.items() if value is not None}
    if name is None or not steps is epochs is minutes is None:
        refuse_duration(steps=steps, epochs=epochs, minutes=minutes)
        if chosen.warmup >= 1:  # of the recipe's own steps
            changed.setdefault("warmup", chosen.warmup / chosen.total_steps)
        if minutes is not None:
            steps = UNTIMED
        changed |= {"total_steps": steps, "epochs": epochs}
    refuse_schedule(
        changed.get("learning_rate", chosen.learning_rate),
        changed.get("warmup", chosen.warmup),
        changed.get("total_steps", chosen.total_steps) if minutes is None else None,
    )
    for field in ("dropout", "classifier_dropout"):
        if not 0 <= changed.get(field, 0) < 1:
            flag = "--" + field.replace("_", "-")
            raise ValueError(f"{flag} must be at least 0 and below 1. Received: {changed[field]}.")
    return dataclasses.replace(chosen, **changed)


def fitting_length(
    length: int | None, recipe: FinetuningRecipe, trained: int | None, checkpoint: Path
) -> int:
    """The longest row: --length, with a note where its positions were not trained, or as much of
    the recipe's as the model was trained on.

    Args:
        trained: pieces of the longest row of training, None where it is not known.
        checkpoint: folder of the model.
    """
    if length is None:
        return min(recipe.max_length, trained or recipe.max_length, positions_in(checkpoint))
    if trained is not None and length > trained:
        typer.echo(
            f"note: {checkpoint} was trained on rows of at most {trained} pieces. Its positions "
            f"from {trained} on were not trained there; --length {length} uses them.",
            err=True,
        )
    return length


def in_steps(recipe: FinetuningRecipe, examples: int, begun: Mapping[str, Any]) -> FinetuningRecipe:
    """The recipe in steps for so many examples.

    Of a run that goes on they are of its own batch and steps, so that another --batch or other
    --steps are one difference to it, not two.

    Args:
        begun: the recipe of the run that goes on; empty for a new one.
    """
    own = dataclasses.replace(recipe, batch_size=begun.get("batch_size", recipe.batch_size))
    total = own.resolved(examples).total_steps
    whole = begun.get("total_steps", total)
    warmup = round(recipe.warmup * whole) if recipe.warmup < 1 else round(recipe.warmup)
    return dataclasses.replace(recipe, total_steps=total, epochs=None, warmup=warmup)
