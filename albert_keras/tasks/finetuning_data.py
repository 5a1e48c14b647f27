"""What a fine-tuning run reads: its sources, and the batches that it trains on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from albert_keras.tasks.encoded_rows import EncodedRows
from albert_keras.tasks.finetuning_recipe import FinetuningRecipe
from albert_keras.tasks.finetuning_task import FinetuningTask
from albert_keras.tasks.length_batches import length_batches
from albert_keras.tasks.row_cache import cached_rows
from albert_keras.text.tokenizer import Tokenizer


class FinetuningData(NamedTuple):
    """What a run reads: sources of its task, see `FinetuningTask`.

    Args:
        train: to train on.
        dev: held-out ones by name, the one first by which the best model is chosen; may be empty.
        test: by name, predicted at the end, and scored where the truth is known; may be empty.
    """

    train: Any
    dev: dict[str, Any]
    test: dict[str, Any]


def encoded_training_rows(
    task: FinetuningTask,
    source: Any,
    tokenizer: Tokenizer,
    max_length: int,
    cache: str | Path | None = None,
) -> EncodedRows:
    """The rows of a source to train on.

    Args:
        cache: a folder to keep them in, from which they are then mapped into memory. None: they are
            made and held in memory.

    Raises:
        ValueError: what the task refuses, or there is no row to train on.
    """

    def blocks():
        for block in task.encode(source, tokenizer, max_length):
            rows = task.training_rows(block)
            if len(rows):
                yield rows

    if cache is None:
        return EncodedRows.concatenated(blocks())
    task.check(source)  # says again what their encoding once said of rows that cannot be read
    return cached_rows(
        cache,
        blocks,
        sources=task.files(source),
        tokenizer=tokenizer,
        max_length=max_length,
        settings={"task": type(task).__name__, **task.settings(source)},
    )


def training_batches(
    task: FinetuningTask,
    rows: EncodedRows,
    recipe: FinetuningRecipe,
    strategy: tf.distribute.Strategy,
) -> Callable[[int], tf.data.Dataset]:
    """A function that gives the batches from any step on, as the task's trainer takes them."""
    batches_from = length_batches(
        rows,
        batch_size=recipe.batch_size,
        max_length=recipe.max_length,
        seed=recipe.seed,
        **({"multiple": recipe.max_length} if has_fixed_shapes(strategy) else {}),
    )
    return lambda step: batches_from(step).map(task.fit_batch)


def has_fixed_shapes(strategy: tf.distribute.Strategy) -> bool:
    """Whether every batch must have one static shape, as a TPU needs it."""
    return isinstance(strategy, tf.distribute.TPUStrategy)
