"""Windows: questions and their contexts as rows of a length that a model takes."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from albert_keras.tasks.encoded_rows import ranges
from albert_keras.tasks.squad.contexts import encode_contexts, pieces_of_spans
from albert_keras.tasks.squad.reading import Question
from albert_keras.text.tokenizer import Tokenizer

_QUESTIONS_AT_ONCE = 4096


class Windows(NamedTuple):
    """Rows `[CLS] question [SEP] part of the context [SEP]`, those of a question in order.

    Arrays only, so that they can be cached. R rows, N pieces in them, P pieces in the contexts.

    Attributes:
        token_ids: int32 `(N,)`, the pieces of all rows, one row after the other, special pieces
            included, without padding.
        row_splits: int64 `(R + 1,)`; row r is `token_ids[row_splits[r]:row_splits[r + 1]]`.
        second_starts: int32 `(R,)`, the position in the row at which the context, and with it
            segment 1, begins; the last `[SEP]` is of segment 1 too.
        questions: int32 `(R,)`, the index of the row's question.
        start_positions, end_positions: int32 `(R,)`, the first and the last piece of the gold
            answer as positions in the row. 0 and 0 where the question is impossible or the answer
            is not wholly inside the row. -1 and -1 where no answer is known, or its place is not:
            such a row can be predicted, not trained on.
        max_context: bool `(N,)`, where a piece of the context has more context around it than in
            every other row of the question: the only row in which an answer may start with it.
            False at other pieces.
        first_pieces: int64 `(R,)`, the index of the row's first context piece in `piece_starts`.
        piece_starts, piece_ends: int32 `(P,)`, the characters `context[start:end]` that each piece
            came from.
    """

    token_ids: np.ndarray
    row_splits: np.ndarray
    second_starts: np.ndarray
    questions: np.ndarray
    start_positions: np.ndarray
    end_positions: np.ndarray
    max_context: np.ndarray
    first_pieces: np.ndarray
    piece_starts: np.ndarray
    piece_ends: np.ndarray

    @property
    def impossible(self) -> np.ndarray:
        """bool `(R,)`, the target of answerability: whether the row is known to have no answer."""
        return self.end_positions == 0

    @property
    def lengths(self) -> np.ndarray:
        """int64 `(R,)`, pieces of each row, special ones included."""
        return np.diff(self.row_splits)


def encode_windows(
    questions: Sequence[Question],
    tokenizer: Tokenizer,
    max_length: int = 384,
    doc_stride: int = 128,
    max_query_length: int = 64,
) -> Windows:
    """Encodes questions, and slides a window over each context that is too long for a row.

    A row begins `doc_stride` pieces after the one before it, or where that one ends, whichever
    comes first, so that every piece of a context is in some row. An empty context has one row.

        max_length 8, doc_stride 2, question q, context a b c d e f g

        [CLS] q [SEP] a b c d [SEP]     each piece starts an answer where the fewer of its
        [CLS] q [SEP] c d e f [SEP]     neighbours on either side are most: a b c in the first
        [CLS] q [SEP] e f g [SEP]       row, d e in the second, f g in the third

    The gold answer is the first one that has a place. It goes from the first to the last piece that
    shares a character with it, by the tokenizer's offsets alone; where an answer begins or ends
    inside a piece, the whole piece belongs to it.

    A context is encoded once for questions that follow each other.

    Args:
        questions: as `read_squad` gives them.
        tokenizer: a `Tokenizer`.
        max_length: int, the longest row, special pieces included. Default 384, as for SQuAD 1.1;
            2.0 takes 512.
        doc_stride: int > 0, in pieces. Default 128.
        max_query_length: int > 0; a longer question keeps its first pieces. Default 64.

    Raises:
        ValueError: no question, or lengths that leave no room for a context.

    Example:
        >>> windows = encode_windows(read_squad("dev-v1.1.json").questions, tokenizer)
        >>> rows = np.split(windows.token_ids, windows.row_splits[1:-1])

    Reference:
        https://github.com/google-research/albert, `convert_examples_to_features` of squad_utils.py
    """
    if not questions:
        raise ValueError("There must be a question to encode. Received: none.")
    if min(doc_stride, max_query_length) < 1 or max_length < max_query_length + 4:
        raise ValueError(
            "`doc_stride` and `max_query_length` must be at least 1, and `max_length` at least "
            "`max_query_length` + 4, for three special pieces and one of the context. Received: "
            f"doc_stride={doc_stride}, max_query_length={max_query_length}, "
            f"max_length={max_length}. Take a `max_length` of {max_query_length + 4} or more: 128 "
            "for a small model, 384 or 512 for others."
        )
    contexts, context_of = [], []
    for context, group in groupby(question.context for question in questions):
        context_of += [len(contexts)] * len(list(group))
        contexts.append(context)
    context_of = np.array(context_of)
    pieces = encode_contexts(contexts, tokenizer)
    parts = []
    for begin in range(0, len(questions), _QUESTIONS_AT_ONCE):
        some = slice(begin, begin + _QUESTIONS_AT_ONCE)
        texts = [question.question for question in questions[some]]
        query_ids, query_splits = tokenizer.encode_lines(texts)
        query_lengths = np.minimum(np.diff(query_splits), max_query_length)
        row = _cut(pieces, context_of[some], query_lengths, max_length - 3, doc_stride)
        filled = _fill(row, pieces.ids, query_ids, query_splits, query_lengths, tokenizer)
        parts.append((*filled, *row._replace(questions=row.questions + begin)))
    token_ids, max_context, second_starts, *row = map(np.concatenate, zip(*parts, strict=True))
    row = _Rows(*row)
    starts, ends = _targets(questions, context_of, pieces, row, second_starts)
    return Windows(
        token_ids=token_ids,
        row_splits=np.concatenate([[0], np.cumsum(second_starts + row.lengths + 1)]),
        second_starts=second_starts.astype(np.int32),
        questions=row.questions.astype(np.int32),
        start_positions=starts.astype(np.int32),
        end_positions=ends.astype(np.int32),
        max_context=max_context,
        first_pieces=row.first_pieces,
        piece_starts=pieces.starts,
        piece_ends=pieces.ends,
    )


class _Rows(NamedTuple):
    """Which part of its context each row holds: its question, the first piece, how many."""

    questions: np.ndarray
    first_pieces: np.ndarray
    lengths: np.ndarray


def _cut(pieces, context_of, query_lengths, room, doc_stride):
    """The rows of questions, `room` being the pieces that question and context have together."""
    room = room - query_lengths
    stride = np.minimum(doc_stride, room)
    first, end = pieces.splits[context_of], pieces.splits[context_of + 1]
    counts = 1 + np.maximum(0, -((room - (end - first)) // stride))  # divided upwards
    questions = np.repeat(np.arange(len(counts)), counts)
    number = ranges(np.zeros_like(counts), counts)
    first = first[questions] + number * stride[questions]
    return _Rows(questions, first, np.minimum(room[questions], end[questions] - first))


def _fill(row, piece_ids, query_ids, query_splits, query_lengths, tokenizer):
    """`token_ids`, `max_context` and `second_starts` of these rows, see `Windows`."""
    query_lengths = query_lengths[row.questions]
    second_starts = query_lengths + 2
    splits = np.concatenate([[0], np.cumsum(second_starts + row.lengths + 1)])
    token_ids = np.full(splits[-1], tokenizer.sep_id, np.int32)
    token_ids[splits[:-1]] = tokenizer.cls_id
    query = ranges(query_splits[row.questions], query_lengths)
    token_ids[ranges(splits[:-1] + 1, query_lengths)] = query_ids[query]
    context = ranges(splits[:-1] + second_starts, row.lengths)
    token_ids[context] = piece_ids[ranges(row.first_pieces, row.lengths)]
    max_context = np.zeros(len(token_ids), bool)
    max_context[context] = _has_max_context(row)
    return token_ids, max_context, second_starts


def _has_max_context(row):
    """bool, for each context piece of each row, see `Windows`; of equal rows the first has it."""
    windows = np.bincount(row.questions)
    several = windows[row.questions] > 1
    own = np.repeat(np.arange(len(several)), row.lengths * several)
    piece = ranges(row.first_pieces, row.lengths * several)

    def score(distance):
        """Of the row so far behind the own one, -inf if it does not hold the piece."""
        other = np.clip(own + distance, 0, len(several) - 1)
        left = piece - row.first_pieces[other]
        right = row.lengths[other] - 1 - left
        holds = (other == own + distance) & (row.questions[other] == row.questions[own])
        holds &= np.minimum(left, right) >= 0
        # In floating point, as the original: so equal scores are equal there too.
        return np.where(holds, np.minimum(left, right) + 0.01 * row.lengths[other], -np.inf)

    most, best = score(0), np.ones(len(own), bool)
    for distance in range(1, windows.max()):
        before, behind = score(-distance), score(distance)
        best &= (before < most) & (behind <= most)
        if np.isneginf(np.maximum(before, behind)).all():
            break  # rows still farther away share no piece either
    result = np.ones(row.lengths.sum(), bool)
    result[np.repeat(several, row.lengths)] = best
    return result


def _targets(questions, context_of, pieces, row, second_starts):
    """The positions of the gold answer in each row, see `Windows`."""
    placed = [
        next((answer for answer in question.answers if answer.start is not None), None)
        for question in questions
    ]
    begins = np.array([answer.start if answer else 0 for answer in placed])
    ends = np.array([answer.start + len(answer.text) if answer else 0 for answer in placed])
    first, last = pieces_of_spans(pieces, context_of, begins, ends)
    known = (first >= 0) | np.array([question.is_impossible for question in questions])
    first = first[row.questions] - row.first_pieces
    last = last[row.questions] - row.first_pieces
    inside = (first >= 0) & (last < row.lengths)
    return (
        np.where(known[row.questions], np.where(inside, place + second_starts, 0), -1)
        for place in (first, last)
    )
