"""Serving: what an export of one kind of model holds, and how its answers are proven."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_keras.text.packing import BYTES_PER_PIECE, pad_rows

from .self_check import Question

# What the self-check asks: nothing, the odd, the long, and of each script a sentence.
SHORT = b"The answer to a raw string."
ODD = (
    "Ｆｕｌｌ wıdth, Ça\u0301fé 9,9 \U0001f600 [MASK] [SEP] <pad> \x00 ".encode()
    + b"\xff\xc3( cut \xe2\x82"
)
LONG = b"one two three " * 1000
SENTENCES = tuple(
    text.encode()
    for text in (
        "Der Zug nach Köln fährt um 9,5 Minuten später ab.",
        "Поезд опоздал на час.",
        "他每天早上去公园散步。",
        "雨が降っていたので、家にいた。",
        "ذهب الولد إلى المدرسة.",
        "वह हर दिन पढ़ता है।",
    )
)
TEXTS = (b"", b"  ", SHORT, ODD, LONG, *SENTENCES)
# Two scores of the Keras model that are nearer than this may change places in another loader.
CLEAR = 1e-3


class Serving(NamedTuple):
    """What an export answers.

    Attributes:
        kind: str, as in its metadata.
        signatures: by name the function, of named tensors to a dict, and the `tf.TensorSpec` of
            each argument.
        questions: what the self-check asks, with the answers of the Keras model.
        warm_up: what a server asks itself before it is ready, without answers.
        metadata: what a client should know beside the shapes.
    """

    kind: str
    signatures: Mapping[str, tuple[Callable[..., dict[str, tf.Tensor]], Sequence[tf.TensorSpec]]]
    questions: Sequence[Question]
    warm_up: Sequence[Question]
    metadata: Mapping[str, Any]


def strings(*names: str) -> list[tf.TensorSpec]:
    """The arguments of a signature that takes strings, `(B,)` each."""
    return [tf.TensorSpec([None], tf.string, name=name) for name in names]


def batch_of(**inputs: Sequence[bytes]) -> dict[str, np.ndarray]:
    """The inputs of a question.

    >>> batch_of(text=[b"a", b"b"])["text"].tolist()
    [b'a', b'b']
    """
    return {name: np.array(list(values), object) for name, values in inputs.items()}


def ids_signature(model: tf.keras.Model, max_length: int):
    """The signature `ids`, for who tokenizes: rows of exactly `max_length` to the model's outputs.

    The length is fixed because a server that pads pads with the first number that it meets.
    """
    names = ("token_ids", "segment_ids", "padding_mask")
    specs = [tf.TensorSpec([None, max_length], tf.int32, name=name) for name in names]
    return lambda *rows: dict(model(dict(zip(names, rows, strict=True)), training=False)), specs


def tokenize_signature(to_rows: Callable[..., Any], max_length: int, *names: str):
    """The signature `tokenize`: strings to the rows that the model gets, to compare with others."""
    return lambda *texts: pad_rows(to_rows(*texts), max_length), strings(*names)


def row_alone(
    first: Sequence[int], second: Sequence[int] | None, tokenizer, max_length: int
) -> dict[str, np.ndarray]:
    """The inputs of one row, without padding and without a graph: what the export must agree with.

    A pair is cut as the original does it: the longer one loses its last piece, again and again.
    """
    first = list(first)
    if second is None:
        ids = [tokenizer.cls_id, *first[: max_length - 2], tokenizer.sep_id]
        second_start = len(ids)
    else:
        second = list(second)
        while len(first) + len(second) > max_length - 3:
            (first if len(first) > len(second) else second).pop()
        ids = [tokenizer.cls_id, *first, tokenizer.sep_id, *second, tokenizer.sep_id]
        second_start = len(first) + 2
    return row_inputs(ids, second_start)


def row_inputs(
    ids: Sequence[int], second_start: int, width: int | None = None
) -> dict[str, np.ndarray]:
    """The inputs `(1, width)` of a row of pieces, whose second text begins at `second_start`."""
    row = np.array([ids], np.int32)
    segments = (np.arange(row.shape[1])[np.newaxis] >= second_start).astype(np.int32)
    inputs = {"token_ids": row, "segment_ids": segments, "padding_mask": 0 * row + 1}
    padding = (0, 0), (0, (width or row.shape[1]) - row.shape[1])
    return {name: np.pad(values, padding) for name, values in inputs.items()}


def pieces(tokenizer, text: bytes) -> list[int]:
    """The pieces of a text that need not be UTF-8, however long it is."""
    return tokenizer(tf.constant([text])).to_list()[0]


def eagerly(model: tf.keras.Model, row: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of the Keras model for the only row of a batch."""
    with tf.device("/CPU:0"):  # where the self-check computes; a GPU's float32 may be coarser
        return {name: value.numpy()[0] for name, value in model(dict(row), training=False).items()}


def stacked(
    answers: Sequence[Mapping[str, Any]], empty: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """The answers of a batch, one after the other; without any, 0 of those like `empty`."""
    rows = answers or [empty]
    columns = {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}
    return {name: _as_served(column)[: len(answers)] for name, column in columns.items()}


def _as_served(column):
    """With the dtype that it has in a graph: bytes of any length, single precision."""
    kinds = {"S": object, "f": np.float32}
    return column.astype(kinds.get(column.dtype.kind, column.dtype))


def is_clear(scores: np.ndarray) -> np.ndarray:
    """bool `(B,)`: whether the highest of the scores `(B, C)` is so by more than `CLEAR`."""
    if scores.shape[1] < 2:
        return np.ones(len(scores), bool)
    second, first = np.sort(scores, axis=1)[:, -2:].T
    return first - second > CLEAR


def texts_of_lengths(max_length: int) -> list[bytes]:
    """A text for each width that a row is likely to have, the empty one first."""
    lengths, length = [0], 8
    while length < max_length:
        lengths.append(length)
        length *= 2
    return [b"the " * length for length in (*lengths, max_length)]


def byte_limit(max_length: int) -> int:
    """How many bytes of a text are read."""
    return BYTES_PER_PIECE * max_length
