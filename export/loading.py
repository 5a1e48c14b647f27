"""load_export: a SavedModel from its folder, without Keras and without the model's code."""

from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_keras.text.sentencepiece import sentencepiece_ops
from albert_keras.text.wordpiece import wordpiece_ops


def load_export(folder: str | Path) -> Any:
    """What `tf.saved_model.load` gives for an export; its `signatures` answer.

    Args:
        folder: of one version, with `saved_model.pb` in it.

    Raises:
        ValueError: the export is damaged.

    Example:

    >>> load_export("served/mail/1").signatures["serving_default"](text=tf.constant(["Hello"]))
    {'label': ..., 'score': ..., 'probabilities': ..., 'logits': ...}
    """
    # They register what the graph tokenizes with.
    sentencepiece_ops(), wordpiece_ops()
    try:
        return tf.saved_model.load(str(folder))
    except Exception as error:  # any: each is a way in which a file can be broken
        raise ValueError(
            f"The export in {folder} is damaged or cut off: {type(error).__name__}: {error}. Copy "
            "it again, or export the model again."
        ) from error
