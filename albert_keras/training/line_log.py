"""LineLog: a file of JSON lines, each of a training step."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from albert_keras.new_file import write_file


class LineLog:
    """Objects with a `step`, one a line. What a full disk does not take waits in memory.

    Args:
        path: of the file; its folder must exist when a line is written.

    Example:
        >>> log = LineLog("metrics.jsonl")
        >>> log.add(50, {"loss": 8.1})
        >>> log.write()
        >>> log.read()
        [{'step': 50, 'loss': 8.1}]
    """

    def __init__(self, path: Path):
        self._path = path
        self._waiting: list[str] = []

    def add(self, step: int, fields: Mapping[str, Any]) -> None:
        """Adds a line, which the next `write` appends to the file."""
        self._waiting.append(json.dumps({"step": step, **fields}) + "\n")

    def write(self) -> None:
        """Appends the lines that wait.

        Raises:
            OSError: they cannot be written; the file is as it was, and they still wait.
        """
        if not self._waiting:
            return
        data = "".join(self._waiting).encode()
        # Unbuffered: a buffer that could not be written would be written when the file closes.
        with self._path.open("ab", buffering=0) as file:
            size = file.seek(0, 2)
            try:
                while data:
                    data = data[file.write(data) :]
            except OSError:
                file.truncate(size)
                raise
        self._waiting = []

    def read(self) -> list[dict[str, Any]]:
        """The lines of the file, in its order.

        Raises:
            ValueError: a line is not as it was written.
        """
        return [json.loads(line) for line, _ in self._lines()]

    def forget_after(self, step: int) -> None:
        """Drops the lines of later steps, which a killed run had written but not saved."""
        if self._path.exists():
            kept = [line for line, its_step in self._lines() if its_step <= step]
            write_file(self._path, b"".join(kept))

    def _lines(self):
        """Pairs of a line and its step."""
        if not self._path.exists():
            return []
        lines = self._path.read_bytes().splitlines(keepends=True)
        # One without an end is what a killed process did not finish.
        lines = [line for line in lines if line.endswith(b"\n")]
        try:
            return [(line, int(json.loads(line)["step"])) for line in lines]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{self._path} is damaged: a line is not as it was written."
            ) from error
