"""ask: raw strings to an exported classifier, without Keras and without the model's code."""

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from albert_keras.text.sentencepiece import sentencepiece_ops

from .self_check import SIGNATURE


def ask(folder: str | Path, texts: Sequence[str]) -> list[tuple[str, float, str]]:
    """(label, its probability, text) for each text.

    Args:
        folder: of a SavedModel, or of its versions: then the highest number answers.
        texts: any strings.

    Raises:
        ValueError: there is no SavedModel, or not one of `export_classifier`.

    Example:

    >>> ask("served/mail", ["Win a prize now!"])
    [('spam', 0.98, 'Win a prize now!')]
    """
    folder = Path(folder)
    versions = [path.parent for path in folder.glob("[0-9]*/saved_model.pb")]
    if versions:
        folder = max(versions, key=lambda path: int(path.name))
    if not (folder / "saved_model.pb").is_file():
        raise ValueError(
            "An export is a folder with saved_model.pb, or with numbered versions of it. Received: "
            f"{folder}. Make one with `albert-keras export`."
        )
    sentencepiece_ops()  # registers what the graph tokenises with
    loaded = tf.saved_model.load(str(folder))
    signature = loaded.signatures.get(SIGNATURE)
    if signature is None or not {"label", "score"} <= set(signature.structured_outputs):
        raise ValueError(
            f"A classifier's export has a {SIGNATURE!r} signature that gives label and score. "
            f"Received: {folder} with the signatures {sorted(loaded.signatures)}."
        )
    answer = signature(text=tf.constant(texts, tf.string, shape=[len(texts)]))
    labels = [label.decode() for label in answer["label"].numpy()]
    return list(zip(labels, answer["score"].numpy().tolist(), texts, strict=True))
