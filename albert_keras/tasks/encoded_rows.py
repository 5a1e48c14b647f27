"""EncodedRows: the examples of a task as piece ids."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import tensorflow as tf

from albert_keras.text.packing import Rows, text_rows
from albert_keras.text.tokenizer import Tokenizer
from albert_keras.text.utf8 import valid_utf8

# Examples that are tokenised, sorted or predicted at once.
BLOCK_EXAMPLES = 2048
_TARGET = "target."


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedRows:
    """Rows of piece ids, special ones included, with what a model is to say about them.

    As a rule a row is an example. In multiple choice an example has a row for each choice, and
    `choices` says how many.

        two pairs              ids             2 7 8 3 5 3 2 9 3 6 4 3
                               lengths         6 6
                               second_starts   4 3
                               targets         {"logits": [1, 0]}

    Args:
        ids: uint16 or int32 `(T,)`, the pieces of all R rows, one row after the other.
        lengths: int32 `(R,)`, of each row.
        second_starts: int32 `(R,)`, the position at which segment 1 begins; the row's length where
            there is none.
        targets: arrays `(N, ...)` by the model's output that they are for; may be empty.
        choices: int32 `(N,)`, the rows of each example. Default None: a row is an example.

    Raises:
        ValueError: the arrays do not belong together.

    Example:
        >>> rows = EncodedRows(ids, lengths, second_starts, {"logits": labels})
        >>> len(rows.take(np.array([3, 1, 4])))
        3
    """

    ids: np.ndarray
    lengths: np.ndarray
    second_starts: np.ndarray
    targets: Mapping[str, np.ndarray]
    choices: np.ndarray | None = None

    def __post_init__(self):
        sizes = {name: len(target) for name, target in self.targets.items()}
        rows = len(self) if self.choices is None else int(self.choices.sum())
        if (
            len(self.ids) != self.splits[-1]
            or not len(self.lengths) == len(self.second_starts) == rows
            or any(size != len(self) for size in sizes.values())
        ):
            raise ValueError(
                "Rows, their pieces and their targets must belong together. Received: "
                f"{len(self.ids)} pieces for lengths that add up to {self.splits[-1]}, "
                f"{len(self.second_starts)} starts for {len(self.lengths)} rows, "
                f"{len(self)} examples of {rows} rows, and targets {sizes}."
            )

    def __len__(self):
        """N, the number of examples."""
        return len(self.lengths if self.choices is None else self.choices)

    @functools.cached_property
    def splits(self) -> np.ndarray:
        """int64 `(R + 1,)`: row r is `ids[splits[r]:splits[r + 1]]`."""
        return _splits(self.lengths)

    @functools.cached_property
    def example_lengths(self) -> np.ndarray:
        """int32 `(N,)`, of the longest row of each example."""
        if self.choices is None:
            return self.lengths
        return np.maximum.reduceat(self.lengths, _splits(self.choices)[:-1])

    def take(self, examples: np.ndarray) -> "EncodedRows":
        """The examples with these int `(n,)` places, in that order."""
        rows, choices = examples, None
        if self.choices is not None:
            choices = self.choices[examples]
            rows = ranges(_splits(self.choices)[examples], choices)
        lengths = np.asarray(self.lengths[rows])
        return EncodedRows(
            np.asarray(self.ids[ranges(self.splits[rows], lengths)]),
            lengths,
            np.asarray(self.second_starts[rows]),
            {name: np.asarray(target[examples]) for name, target in self.targets.items()},
            choices,
        )

    def blocks(self, size: int = BLOCK_EXAMPLES) -> Iterator["EncodedRows"]:
        """The examples in their order, at most `size` at a time."""
        for start in range(0, len(self), size):
            yield self.take(np.arange(start, min(start + size, len(self))))

    @staticmethod
    def of(
        rows: Rows,
        vocab_size: int,
        targets: Mapping[str, np.ndarray],
        choices: np.ndarray | None = None,
    ) -> "EncodedRows":
        """From rows that `albert_keras.text.packing` assembled.

        Args:
            rows: of TensorFlow's eager tensors.
            vocab_size: V, which tells whether an id has room in two bytes.
            targets, choices: as of the class.
        """
        return EncodedRows(
            rows.token_ids.values.numpy().astype(np.uint16 if vocab_size <= 1 << 16 else np.int32),
            rows.token_ids.row_lengths().numpy().astype(np.int32),
            rows.second_starts.numpy(),
            targets,
            choices,
        )

    @staticmethod
    def concatenated(blocks: Iterable["EncodedRows"]) -> "EncodedRows":
        """The examples of several, in memory. Raises ValueError where there are none."""
        blocks = list(blocks)
        _refuse_none(blocks)
        arrays = [block.arrays() for block in blocks]
        return EncodedRows.from_arrays(
            {name: np.concatenate([one[name] for one in arrays]) for name in arrays[0]}
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays by name, each of which grows along its first axis."""
        arrays = {"ids": self.ids, "lengths": self.lengths, "second_starts": self.second_starts}
        if self.choices is not None:
            arrays["choices"] = self.choices
        return arrays | {_TARGET + name: target for name, target in self.targets.items()}

    @staticmethod
    def from_arrays(arrays: Mapping[str, np.ndarray]) -> "EncodedRows":
        """The rows of what `arrays` gave."""
        targets = {
            name.removeprefix(_TARGET): array
            for name, array in arrays.items()
            if name.startswith(_TARGET)
        }
        fields = {name: array for name, array in arrays.items() if not name.startswith(_TARGET)}
        return EncodedRows(**fields, targets=targets)


def encoded_blocks(
    examples: Iterable[tuple[Sequence[str], Mapping[str, Any]]],
    tokenizer: Tokenizer,
    max_length: int,
) -> Iterator[EncodedRows]:
    """Tokenizes a stream of examples, some thousand at a time: only those are in memory.

    Args:
        examples: pairs of an example's texts, one or two and always as many, and its targets:
            numbers, or arrays of one shape, by the model's output that they are for. Whole numbers
            become int32, others float32.
        tokenizer: gives the ids, by the op that serves as well.
        max_length: int > 2, the longest row; of pairs > 3. See `text_rows`.

    Example:
        >>> examples = [(("Who came?", "Nobody came."), {"logits": 1})]
        >>> next(encoded_blocks(examples, tokenizer, max_length=128)).lengths
    """

    examples = iter(examples)
    while block := list(islice(examples, BLOCK_EXAMPLES)):
        columns = zip(*(texts for texts, _ in block), strict=True)
        columns = [valid_utf8(column) for column in columns]
        yield EncodedRows.of(
            _encoder(tokenizer, max_length, len(columns))(*columns),
            tokenizer.vocab_size,
            {name: _numbers([targets[name] for _, targets in block]) for name in block[0][1]},
        )


@functools.lru_cache(8)  # a held-out file is encoded at every evaluation
def _encoder(tokenizer, max_length, texts):
    """`text_rows` of examples with so many texts, traced once."""
    return tf.function(
        lambda first, second=None: text_rows(first, tokenizer, max_length, second),
        input_signature=[tf.TensorSpec([None], tf.string)] * texts,
    )


def _refuse_none(blocks):
    if not blocks:
        raise ValueError("There must be examples to encode. Received: none.")


def _numbers(values):
    array = np.asarray(values)
    return array.astype(np.int32 if array.dtype.kind in "biu" else np.float32)


def _splits(lengths):
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """start, start + 1, ..., start + length - 1 of each, one after the other.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)
