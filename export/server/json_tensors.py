"""Tensors as the JSON of TensorFlow Serving's REST, in rows and in columns."""

import base64
import binascii
import json
from collections.abc import Mapping
from reprlib import repr as shortened
from typing import Any

import numpy as np
import tensorflow as tf

from .refusal import invalid

# https://www.tensorflow.org/tfx/serving/api_rest
ROWS, COLUMNS = "instances", "inputs"
_ANSWERS = {ROWS: "predictions", COLUMNS: "outputs"}


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object that a request is.

    Raises:
        Refusal: it is none.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:  # ValueError: of UTF-8 as well
        raise invalid(f"A request must be JSON in UTF-8. Received: {error}.") from None
    if not isinstance(value, dict):
        raise invalid(f"A request must be a JSON object. Received: {shortened(value)}.")
    if not isinstance(value.get("signature_name", ""), str):
        raise invalid(f"signature_name must be a string. Received: {value['signature_name']!r}.")
    return value


def read_tensors(
    request: Mapping[str, Any], specs: Mapping[str, tf.TensorSpec]
) -> tuple[dict[str, np.ndarray], str]:
    """The inputs in a request to predict, and the form that it has: `ROWS` or `COLUMNS`.

    >>> text = {"text": tf.TensorSpec([None], tf.string)}
    >>> read_tensors({"instances": ["a", {"b64": "Yg=="}]}, text)
    ({'text': array([b'a', b'b'], dtype=object)}, 'instances')
    >>> read_tensors({"inputs": {"text": ["a", "b"]}}, text)
    ({'text': array([b'a', b'b'], dtype=object)}, 'inputs')

    Raises:
        Refusal: it has neither or both, or a value that does not fit.
    """
    forms = [form for form in (ROWS, COLUMNS) if form in request]
    if len(forms) != 1:
        raise invalid(f"A request has either {ROWS!r} or {COLUMNS!r}. Received: {sorted(request)}.")
    [form] = forms
    columns = (_columns_of_rows if form == ROWS else _columns)(request[form], specs)
    return {name: _array(values, specs[name], name) for name, values in columns.items()}, form


def write_tensors(outputs: Mapping[str, np.ndarray], form: str) -> dict[str, Any]:
    """The answer to a request of that form.

    >>> write_tensors({"label": np.array([b"ham"], object), "score": np.array([0.5])}, "instances")
    {'predictions': [{'label': 'ham', 'score': 0.5}]}

    Raises:
        Refusal: rows are asked for, and the outputs do not have equally many.
    """
    listed = {name: _listed(name, values) for name, values in outputs.items()}
    if form == ROWS:
        rows = {name: len(values) for name, values in outputs.items() if values.ndim}
        if len(set(rows.values())) > 1 or len(rows) < len(outputs):
            raise invalid(
                f"{ROWS!r} are for outputs with equally many rows. Received: a signature with the "
                f"outputs { ({name: outputs[name].shape for name in sorted(outputs)}) }. Send "
                f"{COLUMNS!r}."
            )
        names = list(listed)
        rows = [dict(zip(names, row, strict=True)) for row in zip(*listed.values(), strict=True)]
        answer = rows if len(names) > 1 else listed[names[0]]
    else:
        answer = listed if len(listed) > 1 else next(iter(listed.values()))
    return {_ANSWERS[form]: answer}


def string_of(value: Any, name: str) -> bytes:
    """A JSON string as UTF-8, or the bytes of `{"b64": ...}`."""
    if _is_base64(value):
        data = value["b64"]
        try:
            return base64.b64decode(data + "=" * (-len(data) % 4), validate=True)
        except (binascii.Error, ValueError) as error:
            raise invalid(f"{name}: b64 must be base64. Received: {error}.") from None
    if not isinstance(value, str):
        raise invalid(f"{name} takes strings and {{'b64': ...}}. Received: {shortened(value)}.")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise invalid(
            f"{name}: a string must be Unicode. Received: a lone surrogate. Send bytes as "
            "{'b64': ...}."
        ) from None


def _is_base64(value):
    return isinstance(value, dict) and set(value) == {"b64"} and isinstance(value["b64"], str)


def _columns_of_rows(rows, specs):
    if not isinstance(rows, list) or not rows:
        raise invalid(f"{ROWS!r} must be a list with a row or more. Received: {shortened(rows)}.")
    named = [isinstance(row, dict) and not _is_base64(row) for row in rows]
    if len(specs) == 1 and not any(named):
        return {name: rows for name in specs}
    for number, row in enumerate(rows):
        if not named[number] or set(row) != set(specs):
            received = sorted(row) if named[number] else shortened(row)
            raise invalid(
                f"Each row must be an object with {sorted(specs)}. Received: {received}, in row "
                f"{number}."
            )
    return {name: [row[name] for row in rows] for name in specs}


def _columns(columns, specs):
    if isinstance(columns, dict) and not _is_base64(columns):
        if set(columns) != set(specs):
            raise invalid(f"The inputs are {sorted(specs)}. Received: {sorted(columns)}.")
        return columns
    if len(specs) != 1:
        raise invalid(
            f"{COLUMNS!r} must be an object with {sorted(specs)}. Received: {shortened(columns)}."
        )
    return {name: columns for name in specs}


def _array(value, spec, name):
    level, shape = [value], []
    for size in spec.shape:
        if not all(isinstance(item, list) for item in level):
            raise invalid(
                f"{name} must be lists, {spec.shape.rank} deep with its rows. Received: "
                f"{shortened(next(item for item in level if not isinstance(item, list)))}."
            )
        sizes = sorted({len(item) for item in level})
        if len(sizes) > 1:
            raise invalid(
                f"{name} must have lists of one length. Received: lengths from {sizes[0]} to "
                f"{sizes[-1]}. Fill the shorter ones."
            )
        # Behind an axis of no items the others are not seen.
        shape.append(sizes[0] if sizes else size or 0)
        level = [item for part in level for item in part]
    leaves = [_leaf(item, spec.dtype, name) for item in level]
    dtype = object if spec.dtype == tf.string else spec.dtype.as_numpy_dtype
    return np.array(leaves, dtype).reshape(shape)


def _leaf(value, dtype, name):
    if dtype == tf.string:
        return string_of(value, name)
    if dtype.is_integer and type(value) is int and dtype.min <= value <= dtype.max:
        return value
    if dtype.is_floating and type(value) in (int, float) and abs(value) <= dtype.max:
        return value
    if dtype.is_bool and type(value) is bool:
        return value
    raise invalid(f"{name} takes {dtype.name}. Received: {shortened(value)}.")


def _listed(name, values):
    if values.dtype != object:
        return values.tolist()
    shown = [
        {"b64": base64.b64encode(value).decode()}
        if name.endswith("_bytes")
        else value.decode(errors="replace")
        for value in values.flat
    ]
    listed = np.empty(values.size, object)
    listed[:] = shown
    return listed.reshape(values.shape).tolist()
