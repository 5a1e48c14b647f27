"""Where in a folder the checkpoint or the vocabulary is: what can be told without TensorFlow."""

from pathlib import Path

from albert_keras.json_file import read_json
from albert_keras.run_folder import MODEL, SETTINGS
from albert_keras.text.tokenizer_folder import find_vocabulary

CONFIG = "config.json"
WEIGHTS = "model.safetensors"


def find_checkpoint(folder: str | Path) -> Path:
    """`folder` itself if it is a checkpoint, else the `model` in it, as a run's folder has one.

    Raises:
        ValueError: neither is.
    """
    folder = Path(folder)
    for path in (folder, folder / MODEL):
        if (path / CONFIG).is_file():
            return path
    if (folder / SETTINGS).is_file():
        raise ValueError(
            f"A run has its model when it has ended. Received: {folder}, which has not. Repeat "
            "the command that began it with --resume added."
        )
    raise ValueError(
        f"A checkpoint folder holds {CONFIG} and {WEIGHTS}. Received: {folder}, which has none, "
        f"nor a {MODEL}/ that has. `albert-keras convert` makes one of other formats."
    )


def find_tokenizer(path: str | Path) -> Path:
    """`path` itself, or the `model` in it where that alone has a vocabulary, as of a run."""
    path = Path(path)
    if path.is_dir() and not find_vocabulary(path) and find_vocabulary(path / MODEL):
        return path / MODEL
    return path


def positions_in(folder: str | Path) -> int:
    """How many positions the model of a checkpoint folder has.

    Raises:
        ValueError: its config does not say.
    """
    path = Path(folder) / CONFIG
    positions = read_json(path, keys=["max_position_embeddings"])["max_position_embeddings"]
    if type(positions) is not int:
        raise ValueError(
            f"{path}: `max_position_embeddings` must be a whole number. Received: {positions!r}."
        )
    return positions
