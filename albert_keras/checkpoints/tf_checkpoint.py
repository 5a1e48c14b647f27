"""TensorFlow checkpoints, of TF1 and of TF2: where they lie, and what is the model's in them."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_keras.checkpoints.filling import unmatched

# Of TF2's checkpoints alone: the Python objects around the variables.
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Of optimizers and of the training, no part of the model: names of TF1, then keys of TF2.
STATE = (
    *("*/adam_m", "*/adam_v", "*/lamb_m", "*/lamb_v", "global_step"),
    *("save_counter/*", "global_step/*", "optimizer/*", "*/.OPTIMIZER_SLOT/*"),
)

_DAMAGE = (tf.errors.OpError, ValueError, IndexError)


class TensorFlowCheckpoint(NamedTuple):
    """What an opened checkpoint holds of a model."""

    shapes: dict[str, tuple[int, ...]]
    """By name, without the training's state."""
    get_tensor: Callable[[str], np.ndarray]
    """Gives the array of a name; a ValueError where the file is damaged."""
    state: int
    """How many tensors are the training's state."""


def open_checkpoint(prefix: Path) -> TensorFlowCheckpoint:
    """Opens a checkpoint, of which nothing but the names and shapes is read yet.

    Raises:
        ValueError: the file is damaged.
    """
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        shapes = reader.get_variable_to_shape_map()
    except _DAMAGE as error:
        raise ValueError(f"The checkpoint {prefix} is damaged or cut off: {error}.") from error

    def get_tensor(name):
        try:
            return reader.get_tensor(name)
        except _DAMAGE as error:
            raise ValueError(f"{prefix} is damaged or cut off at {name}: {error}.") from error

    names = unmatched(shapes, STATE)
    return TensorFlowCheckpoint(
        {name: tuple(shapes[name]) for name in names}, get_tensor, len(shapes) - len(names)
    )


def folder_of(source: str | Path) -> Path:
    """Where the other files of a checkpoint lie: `source`, or the folder of a prefix."""
    source = Path(source)
    return source if source.is_dir() else source.parent


def checkpoint_prefix(source: str | Path) -> Path:
    """The prefix of the one checkpoint in a folder or a SavedModel, or of the one that `source`
    names.

    Raises:
        ValueError: there is none, or there are several.
    """
    source = Path(source)
    if source.is_dir():
        variables = source / "variables"  # of a SavedModel
        folder = variables if variables.is_dir() else source
        found = sorted(folder.glob("*.index"))
        if len(found) != 1:
            raise ValueError(
                f"A folder must hold one TensorFlow checkpoint. Received: {folder} with "
                f"{[path.name for path in found]}. Name one by its prefix."
            )
        return found[0].with_suffix("")
    prefix = source.with_suffix("") if source.suffix == ".index" else source
    if not Path(f"{prefix}.index").is_file():
        raise ValueError(f"A TensorFlow checkpoint has a file {prefix}.index. Received: {source}.")
    return prefix
