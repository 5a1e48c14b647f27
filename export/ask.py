"""ask: raw strings to an exported classifier, without Keras and without the model's code."""

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from albert_keras.served_folder import versions_in
from albert_keras.text.sentencepiece import sentencepiece_ops
from albert_keras.text.wordpiece import wordpiece_ops

from .clean_process import SIGNATURE

_BATCH = 64  # texts asked at once: a batch is as wide as its longest


def ask(folder: str | Path, texts: Sequence[str]) -> list[tuple[str, float, str]]:
    """(label, its probability, text) for each text.

    Args:
        folder: of a SavedModel, or of its versions: then the highest number answers.
        texts: any strings.

    Raises:
        ValueError: there is no SavedModel, a damaged one, or not one of `export_classifier`.

    Example:

    >>> ask("served/mail", ["Win a prize now!"])
    [('spam', 0.98, 'Win a prize now!')]
    """
    folder = versions_in(folder)[-1]
    # They register what the graph tokenises with.
    sentencepiece_ops(), wordpiece_ops()
    try:
        loaded = tf.saved_model.load(str(folder))
    except Exception as error:  # any: each is a way in which a file can be broken
        raise ValueError(
            f"The export in {folder} is damaged or cut off: {type(error).__name__}: {error}. Copy "
            "it again, or export the model again."
        ) from error
    signature = loaded.signatures.get(SIGNATURE)
    if signature is None or not {"label", "score"} <= set(signature.structured_outputs):
        raise ValueError(
            f"A classifier's export has a {SIGNATURE!r} signature that gives label and score. "
            f"Received: {folder} with the signatures {sorted(loaded.signatures)}."
        )
    answers = []
    for start in range(0, len(texts), _BATCH):
        part = texts[start : start + _BATCH]
        # The graph repairs what is not UTF-8, so a lone surrogate may reach it.
        data = [text.encode(errors="surrogatepass") for text in part]
        answer = signature(text=tf.constant(data, tf.string))
        labels = [label.decode() for label in answer["label"].numpy()]
        answers += zip(labels, answer["score"].numpy().tolist(), part, strict=True)
    return answers
