"""ServedModel: raw strings to an exported model, without Keras and without the model's code."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from albert_keras.served_folder import SIGNATURE, versions_in

from .loading import load_export

_BATCH = 64  # examples asked at once: what they make is as wide as the longest
# The inputs of examples in the order in which people say them.
_ORDER = ("question", "context", "first", "second", "text", "pair")
_ORDER_OF_CHOICES = ("context", "question", "options")


class ServedModel:
    """The SavedModel of an export, for Python.

    Args:
        folder: of a SavedModel, or of its versions: then the highest number answers.
        signature: that takes strings. Default "serving_default".

    Attributes:
        inputs: list of str, what an example is made of, such as `["question", "context"]`.

    Raises:
        ValueError: there is no SavedModel, a damaged one, or none of `export_saved_model`.

    Example:

    >>> model = ServedModel("served/mail")
    >>> model.ask({"text": ["Win a prize now!"]})[0]["label"]
    'spam'
    """

    def __init__(self, folder: str | Path, signature: str = SIGNATURE):
        self._folder = versions_in(folder)[-1]
        # Kept, because its signatures hold its variables by weak references.
        self._loaded = load_export(self._folder)
        self._signature = self._loaded.signatures.get(signature)
        specs = {} if self._signature is None else self._signature.structured_input_signature[1]
        order = _ORDER_OF_CHOICES if "options" in specs else _ORDER
        if not specs or not set(specs) <= set(order):
            raise ValueError(
                f"An export has a signature {signature!r} that takes strings. Received: "
                f"{self._folder} with the signatures {sorted(self._loaded.signatures)}. Name "
                "another, or make an export with `albert-keras export`."
            )
        self.inputs = sorted(specs, key=order.index)

    def ask(
        self, examples: Mapping[str, Sequence[str] | Sequence[Sequence[str]]]
    ) -> list[dict[str, Any]]:
        """The answers to examples: for each a dict of the signature's outputs, as Python's own
        numbers, texts and lists.

        Args:
            examples: by input as many strings as there are examples; of `options` lists of strings.

        Raises:
            ValueError: other inputs than the export takes, or not of each as many.
        """
        sizes = {name: len(values) for name, values in examples.items()}
        if set(sizes) != set(self.inputs) or len(set(sizes.values())) != 1:
            raise ValueError(
                f"The export in {self._folder} takes {', '.join(self.inputs)}, of each as many. "
                f"Received: {sizes}."
            )
        total = next(iter(sizes.values()))
        answers = []
        for start in range(0, total, _BATCH):
            part = {
                name: (_rows if name == "options" else _column)(values[start : start + _BATCH])
                for name, values in examples.items()
            }
            outputs = {name: value.numpy() for name, value in self._signature(**part).items()}
            for row in range(min(_BATCH, total - start)):
                answers.append({name: _plain(array[row]) for name, array in outputs.items()})
        return answers


def _column(texts):
    # The graph repairs what is not UTF-8, so a lone surrogate may reach it.
    return tf.constant([text.encode(errors="surrogatepass") for text in texts], tf.string)


def _rows(lists):
    longest = max(map(len, lists))
    padded = ([*texts, *[""] * (longest - len(texts))] for texts in lists)
    return tf.stack([_column(texts) for texts in padded])


def _plain(value):
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.ndarray):
        return [_plain(one) for one in value] if value.dtype == object else value.tolist()
    return value.item()
