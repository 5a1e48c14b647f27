"""Contexts as pieces that know their characters, and the pieces of an answer."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from albert_keras.text.tokenizer import Tokenizer

_CONTEXTS_AT_ONCE = 128


class Pieces(NamedTuple):
    """The pieces of C contexts, P in all, one context after the other.

    Attributes:
        ids: int32 `(P,)`.
        starts, ends: int32 `(P,)`, the characters `context[start:end]` that a piece came from.
        splits: int64 `(C + 1,)`; context c has the pieces `splits[c]` to `splits[c + 1]`.
        character_splits: int64 `(C + 1,)`, the same of characters, with one between two contexts.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    splits: np.ndarray
    character_splits: np.ndarray


def encode_contexts(contexts: Sequence[str], tokenizer: Tokenizer) -> Pieces:
    """The pieces of each context, without special ones.

    Args:
        contexts: at least one.
        tokenizer: a `Tokenizer`.
    """
    parts = []
    for begin in range(0, len(contexts), _CONTEXTS_AT_ONCE):
        *encoded, splits = tokenizer.encode_lines_with_offsets(
            contexts[begin : begin + _CONTEXTS_AT_ONCE]
        )
        parts.append((*encoded, np.diff(splits)))
    ids, starts, ends, counts = map(np.concatenate, zip(*parts, strict=True))
    return Pieces(
        ids.astype(np.int32),
        starts.astype(np.int32),
        ends.astype(np.int32),
        np.concatenate([[0], np.cumsum(counts)]),
        np.cumsum([0, *(len(context) + 1 for context in contexts)]),
    )


def pieces_of_spans(
    pieces: Pieces, contexts: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last piece that share a character with each span of characters.

    Args:
        pieces: of `encode_contexts`.
        contexts: int `(A,)`, which context each span is of.
        starts, ends: int `(A,)`, its characters `context[start:end]`.

    Returns:
        Two int64 `(A,)`, indices into `pieces.ids`; -1 and -1 where no piece does.
    """
    filled = np.flatnonzero(pieces.starts < pieces.ends)  # a lone marker has no characters
    own_context = np.searchsorted(pieces.splits, filled, side="right") - 1
    shift = pieces.character_splits[own_context]
    # A character whose letters are in several pieces can be in more than one; the running extremes
    # are sorted even then, and what is looked for in them is the same.
    reached = np.maximum.accumulate(pieces.ends[filled] + shift)
    open_from = np.minimum.accumulate((pieces.starts[filled] + shift)[::-1])[::-1]
    shift = pieces.character_splits[contexts]
    first = np.searchsorted(reached, starts + shift, side="right")
    last = np.searchsorted(open_from, ends + shift, side="left") - 1
    found = first <= last
    spans = np.full((2, len(first)), -1, np.int64)
    spans[:, found] = filled[first[found]], filled[last[found]]
    return spans[0], spans[1]
