"""cached_rows: encoded rows that are made once and then read from a folder."""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from albert_keras.data.shards import sha256_of
from albert_keras.json_file import read_json, write_json
from albert_keras.new_folder import new_folder
from albert_keras.tasks.encoded_rows import EncodedRows
from albert_keras.text.packing import BYTES_PER_PIECE
from albert_keras.text.tokenizer import Tokenizer

# To be raised when the same sources would give other rows.
_VERSION = 1
_DESCRIPTION = "rows.json"


def cached_rows(
    folder: str | Path,
    blocks: Callable[[], Iterable[EncodedRows]],
    *,
    sources: Iterable[str | Path],
    tokenizer: Tokenizer,
    max_length: int,
    settings: Mapping[str, Any],
) -> EncodedRows:
    """The rows that `blocks` gives, made once and read from `folder` from then on.

    What was made is found again by a hash of all that shaped it, so other sources or settings make
    another entry and nothing is ever out of date. An entry is written whole or not at all. Its
    arrays are mapped into memory, not read into it.

    Args:
        folder: of the cache; made when missing. What is in it can be removed at any time.
        blocks: makes the rows, block by block.
        sources: the files that `blocks` reads, in its order. Their content counts, not their name.
        tokenizer: gives the ids.
        max_length: the longest row.
        settings: whatever else shapes the rows, as JSON can hold it: task, columns, labels, ....

    Warns:
        UserWarning: an entry is damaged; it is made again.

    Raises:
        ValueError: `blocks` gives no example, or blocks of different targets.

    Example:
        >>> rows = cached_rows(
        ...     "cache", lambda: encoded_blocks(examples(), tokenizer, 128), sources=["train.tsv"],
        ...     tokenizer=tokenizer, max_length=128, settings={"task": "rte"})
    """
    shaped_by = {
        "version": _VERSION,
        "sources": [sha256_of(str(source)) for source in sources],
        "tokenizer": tokenizer.sha256,
        "max_length": max_length,
        "bytes_per_piece": BYTES_PER_PIECE,
        "settings": dict(settings),
    }
    key = hashlib.sha256(json.dumps(shaped_by, sort_keys=True).encode()).hexdigest()
    target = Path(folder) / key
    rows = _read(target)
    if rows is not None:
        return rows
    damaged = target.exists()
    try:
        with new_folder(target, replace=damaged) as partial:
            _write(partial, blocks(), shaped_by)
    except (ValueError, OSError):
        # Another process may have been faster: its rows are as good.
        rows = _read(target)
        if rows is None:
            raise
        return rows
    return _read(target)


def _write(folder, blocks, shaped_by):
    files = {}
    try:
        for block in blocks:
            for name, array in block.arrays().items():
                if name not in files:
                    files[name] = _NpyFile(folder / f"{name}.npy", array)
                files[name].append(array)
        if not files:
            raise ValueError("There must be examples to encode. Received: none.")
    finally:
        for file in files.values():
            file.close()
    sums = {name: sha256_of(str(folder / f"{name}.npy")) for name in files}
    write_json(folder / _DESCRIPTION, {"shaped_by": shaped_by, "sha256": sums})


def _read(folder):
    """The rows in a folder, or None where there are none or they are damaged."""
    if not folder.exists():
        return None
    try:
        sums = read_json(folder / _DESCRIPTION, ["sha256"])["sha256"]
        arrays = {}
        for name, expected in sums.items():
            path = folder / f"{name}.npy"
            if sha256_of(str(path)) != expected:
                raise ValueError(f"{path} has another sha256 than when it was written")
            arrays[name] = np.load(path, mmap_mode="r")
        return EncodedRows.from_arrays(arrays)
    except (ValueError, KeyError, AttributeError, OSError, tf.errors.OpError) as error:
        warnings.warn(
            f"The encoded rows in {folder} are damaged and are made again: {error}", stacklevel=3
        )
        return None


class _NpyFile:
    """A .npy file that grows by blocks along its first axis."""

    def __init__(self, path, like):
        self._path, self._dtype, self._shape = path, like.dtype, like.shape[1:]
        self._file, self._rows = path.open("wb"), 0
        self._write_header()

    def append(self, block):
        if block.dtype != self._dtype or block.shape[1:] != self._shape:
            raise ValueError(
                f"{self._path.stem} must be alike in all examples. Received: {block.dtype} "
                f"{block.shape[1:]} after {self._dtype} {self._shape}."
            )
        self._rows += len(block)
        self._file.write(np.ascontiguousarray(block).data)

    def close(self):
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self):
        # NumPy gives it the same size for any number of rows, so that it can be written again.
        descr = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (self._rows, *self._shape)}
        np.lib.format.write_array_header_1_0(self._file, header)
