"""JSON files: one way to write them, and one to read them that names the file in every error."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from albert_keras.new_file import write_file


def write_json(path: str | Path, fields: dict[str, Any]) -> None:
    """Writes one JSON object, whole or not at all."""
    text = json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
    # A file name that is not UTF-8 has lone surrogates, which JSON can hold as escapes only.
    write_file(path, text.encode(errors="backslashreplace"))


def read_json(path: str | Path, keys: Sequence[str] = ()) -> dict[str, Any]:
    """Reads one JSON object.

    Args:
        path: of the file.
        keys: what the object must have.

    Raises:
        ValueError: there is no such file, it is cut off or otherwise no JSON object, or a key is
            missing; with the file and the cause.

    Example:
        >>> write_json("run.json", {"keras": 2})
        >>> read_json("run.json", keys=["keras"])
        {'keras': 2}
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ValueError(
            f"A file must be there and readable. Received: {path} ({error.strerror})."
        ) from error
    return parse_json(data, path, keys)


def parse_json(data: bytes, path: str | Path, keys: Sequence[str] = ()) -> dict[str, Any]:
    """As `read_json`, for the content of a file that has been read already."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError as well
        raise ValueError(
            f"{path} is damaged or cut off, it is no JSON: {error}. Restore the file, or make what "
            "it belongs to again."
        ) from error
    check_object(fields, str(path), keys)
    return fields


def check_object(value: Any, where: str, keys: Sequence[str] = ()) -> None:
    """Raises ValueError unless `value` is an object with `keys`; `where` names file and place."""
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be a JSON object. Received: {type(value).__name__}.")
    missing = [key for key in keys if key not in value]
    if missing:
        raise ValueError(
            f"{where} must have the keys {', '.join(keys)}. Received: "
            f"{', '.join(value) or 'none'}, without {', '.join(missing)}. It is damaged, or of "
            "another program."
        )


def refuse_lone_surrogate(value: Any, what: str) -> None:
    """Raises ValueError for a text that a JSON string can hold and UTF-8 cannot; `what` names it.

    What is no text passes.
    """
    if not isinstance(value, str):
        return
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what} must be Unicode. Received: the lone surrogate {value[error.start]!a} at "
            f"character {error.start}. Write the character itself, or both halves of its pair."
        ) from None
