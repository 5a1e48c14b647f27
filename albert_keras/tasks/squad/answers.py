"""From the scores of windows to answers: spans, their best texts, and the files of predictions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from albert_keras.json_file import write_json
from albert_keras.tasks.squad.reading import Question, check_unique_ids
from albert_keras.tasks.squad.windows import Windows


class Spans(NamedTuple):
    """Parts of contexts that may be answers, C of them.

    Attributes:
        questions: int32 `(C,)`, the index of the question.
        starts, ends: int32 `(C,)`, the characters `context[start:end]`.
        start_scores, end_scores: float64 `(C,)`, logits or log probabilities; a span's score is
            their sum.
    """

    questions: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    start_scores: np.ndarray
    end_scores: np.ndarray


class Candidate(NamedTuple):
    """A possible answer.

    Attributes:
        text: of the context, without white space around it.
        probability: among the question's candidates.
        start_score, end_score: as of `Spans`.
    """

    text: str
    probability: float
    start_score: float
    end_score: float


def spans_of_logits(
    windows: Windows,
    rows: np.ndarray,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    max_answer_length: int = 30,
    n_best: int = 20,
) -> Spans:
    """The best spans of each row by the head of SQuAD 1.1, a logit for each start and each end.

    All spans of the context are looked at that start where `max_context` says and are not too long.
    The original pairs the 20 best starts with the 20 best ends of the whole row, question included,
    which can leave none.

    Args:
        windows: of `encode_windows`.
        rows: int `(B,)`, which of its rows these are.
        start_logits, end_logits: float `(B, S)`, S at least the longest of the rows.
        max_answer_length: int > 0, in pieces. Default 30.
        n_best: int > 0, how many spans of a row are kept. Default 20.

    Raises:
        ValueError: a length below 1, or a logit that is not a number.
    """
    _check_lengths(max_answer_length, n_best)
    rows = np.asarray(rows)[:, np.newaxis]
    positions = np.arange(windows.lengths[rows].max())
    starts, ends = (
        np.asarray(logits, float)[:, : len(positions)] for logits in (start_logits, end_logits)
    )
    _check_numbers(starts, ends)
    may_end, may_start = _places(windows, rows, positions)
    starts = np.where(may_start, starts, -np.inf)
    ends = np.where(may_end, ends, -np.inf)
    longest = min(max_answer_length, len(positions))
    padded = np.pad(ends, [(0, 0), (0, longest - 1)], constant_values=-np.inf)
    # The ends that each start can have: B, S, length of the answer.
    scores = np.lib.stride_tricks.sliding_window_view(padded, longest, axis=1)
    scores = (starts[:, :, np.newaxis] + scores).reshape(len(rows), -1)
    kept = min(n_best, scores.shape[1])
    best = np.argpartition(-scores, kept - 1, axis=1)[:, :kept]
    possible = np.take_along_axis(scores, best, axis=1) > -np.inf
    row = np.nonzero(possible)[0]
    start, length = np.divmod(best[possible], longest)
    end = start + length
    return _spans(windows, rows[row, 0], start, end, starts[row, start], ends[row, end])


def spans_of_beam(
    windows: Windows,
    rows: np.ndarray,
    start_positions: np.ndarray,
    start_log_probs: np.ndarray,
    end_positions: np.ndarray,
    end_log_probs: np.ndarray,
    max_answer_length: int = 30,
) -> Spans:
    """The spans of each row that the head of SQuAD 2.0 proposes, an `AnswerableSpanHead`.

    Left out are those that are not in the context, begin where `max_context` says no, end before
    they begin, or are too long; none may be left.

    Args:
        windows, rows, max_answer_length: as of `spans_of_logits`.
        start_positions, start_log_probs: `(B, K)`.
        end_positions, end_log_probs: `(B, K, K)`, of each start.

    Raises:
        ValueError: a length below 1, or a log probability that is not a number.
    """
    _check_lengths(max_answer_length)
    _check_numbers(start_log_probs, end_log_probs)
    ends = np.asarray(end_positions)
    rows, starts, start_scores = (
        np.broadcast_to(values, ends.shape)
        for values in (
            np.asarray(rows)[:, np.newaxis, np.newaxis],
            np.asarray(start_positions)[:, :, np.newaxis],
            np.asarray(start_log_probs, float)[:, :, np.newaxis],
        )
    )
    possible = _places(windows, rows, starts)[1] & _places(windows, rows, ends)[0]
    possible &= (starts <= ends) & (ends - starts < max_answer_length)
    return _spans(
        windows,
        *(rows[possible], starts[possible], ends[possible]),
        *(start_scores[possible], np.asarray(end_log_probs, float)[possible]),
    )


def null_odds_of(windows: Windows, unanswerable_logits: np.ndarray) -> np.ndarray:
    """float64 `(Q,)`: how much speaks for "no answer", the least of what a question's rows say.

    A row without the answer says that there is none, so the row with the answer decides. The mean
    of several runs is that of an ensemble.

    Args:
        windows: of `encode_windows`, R rows.
        unanswerable_logits: float `(R,)`, of all rows.

    Raises:
        ValueError: another number of logits, or one that is not a number.
    """
    logits = np.asarray(unanswerable_logits, float)
    if logits.shape != windows.questions.shape or np.isnan(logits).any():
        raise ValueError(
            f"`unanswerable_logits` must be {len(windows.questions)} numbers, one for each row. "
            f"Received: shape {logits.shape}, {np.isnan(logits).sum()} of them NaN."
        )
    # The rows of a question follow each other.
    firsts = np.flatnonzero(np.diff(windows.questions, prepend=-1))
    return np.minimum.reduceat(logits, firsts)


def join_spans(parts: Sequence[Spans]) -> Spans:
    """The spans of several batches as one."""
    return Spans(*map(np.concatenate, zip(*parts, strict=True)))


def average_spans(runs: Sequence[Spans]) -> Spans:
    """The spans of an ensemble: scores are means over the runs that propose a span.

    Runs can differ in vocabulary and window, because a span is known by its characters. As in the
    original, a run that does not propose a span has no say in its score.

    Args:
        runs: of each run all spans of the same questions.

    Reference:
        https://github.com/google-research/albert, `write_predictions_v2` of squad_utils.py
    """
    joined, new = _by_characters(join_spans([_distinct(run) for run in runs]))
    group = np.cumsum(new) - 1
    means = (np.bincount(group, scores) / np.bincount(group) for scores in joined[3:])
    return Spans(*(array[new] for array in joined[:3]), *means)


def best_candidates(
    questions: Sequence[Question], spans: Spans, n_best: int = 20
) -> dict[str, list[Candidate]]:
    """The candidates of each question, the best first, by id in the order of the questions.

    They are the texts of the best spans, cut out of the context and trimmed; of spans with the same
    text the best one counts. Equal scores are in the order of the context, the shorter first. The
    probabilities are a softmax of the scores. A question without any span has the candidate "".

    Args:
        questions: those that were encoded.
        spans: of all their rows.
        n_best: int > 0, the most candidates of a question. Default 20.

    Raises:
        ValueError: two questions with the same id, or `n_best` below 1.
    """
    check_unique_ids(questions)
    if n_best < 1:
        raise ValueError(f"`n_best` must be at least 1. Received: {n_best}.")
    scores = spans.start_scores + spans.end_scores
    order = np.lexsort((spans.ends, spans.starts, -scores, spans.questions))
    sorted_spans = Spans(*(array[order] for array in spans))
    limits = np.searchsorted(sorted_spans.questions, np.arange(len(questions) + 1))
    result = {}
    for index, question in enumerate(questions):
        some = slice(limits[index], limits[index + 1])
        result[question.id] = _candidates(
            question.context, n_best, *(array[some].tolist() for array in sorted_spans[1:])
        )
    return result


def choose(
    candidates: Mapping[str, Sequence[Candidate]],
    null_odds: Mapping[str, float] | None = None,
    threshold: float = 0.0,
) -> dict[str, str]:
    """The predictions: each question's best text, or "" where its null odds are above `threshold`.

    Above, and not at the threshold, so that the score of a threshold that was searched for is
    reached; the original answers "" at the threshold too.

    Args:
        candidates: of `best_candidates`.
        null_odds: of the same questions. Default None: every question has an answer.
        threshold: float. Default 0, where a logit says that both are equally probable.
    """
    return {
        key: "" if null_odds is not None and null_odds[key] > threshold else best[0].text
        for key, best in candidates.items()
    }


def write_predictions(
    folder: Path,
    predictions: Mapping[str, str],
    candidates: Mapping[str, Sequence[Candidate]],
    null_odds: Mapping[str, float] | None = None,
) -> None:
    """Writes predictions.json, nbest_predictions.json and, with `null_odds`, null_odds.json.

    They are the official scripts' files, and the original's by name.

    Args:
        folder: must exist.
        predictions: of `choose`.
        candidates: of `best_candidates`.
        null_odds: by id. Default None.
    """
    folder = Path(folder)
    write_json(folder / "predictions.json", dict(predictions))
    names = ("text", "probability", "start_log_prob", "end_log_prob")
    write_json(
        folder / "nbest_predictions.json",
        {
            key: [dict(zip(names, candidate, strict=True)) for candidate in best]
            for key, best in candidates.items()
        },
    )
    if null_odds is not None:
        write_json(folder / "null_odds.json", dict(null_odds))


def _places(windows, rows, positions):
    """Whether these positions of these rows may end an answer, and whether they may start one.

    They are pieces of the context with characters of it: a lone word marker has none.
    """
    inside = positions >= windows.second_starts[rows]
    inside &= positions < windows.lengths[rows] - 1  # the last [SEP]
    row, position = (np.broadcast_to(array, inside.shape)[inside] for array in (rows, positions))
    start, end = _characters(windows, row, position, position)
    may_end, may_start = np.zeros_like(inside), np.zeros_like(inside)
    may_end[inside] = start < end
    may_start[inside] = (start < end) & windows.max_context[windows.row_splits[row] + position]
    return may_end, may_start


def _spans(windows, rows, starts, ends, start_scores, end_scores):
    characters = _characters(windows, rows, starts, ends)
    return Spans(windows.questions[rows], *characters, start_scores, end_scores)


def _characters(windows, rows, starts, ends):
    """The characters from the piece at one position of a row to the piece at another one."""
    shift = windows.first_pieces[rows] - windows.second_starts[rows]
    return windows.piece_starts[starts + shift], windows.piece_ends[ends + shift]


def _by_characters(spans):
    """The spans sorted by question and characters, and which of them are not the one before."""
    order = np.lexsort((spans.ends, spans.starts, spans.questions))
    spans = Spans(*(array[order] for array in spans))
    new = np.ones(len(order), bool)
    new[1:] = np.any([key[1:] != key[:-1] for key in spans[:3]], axis=0)
    return spans, new


def _distinct(spans):
    """Each span once, with its best score: two pieces can have the same characters."""
    order = np.argsort(-(spans.start_scores + spans.end_scores), kind="stable")
    spans, new = _by_characters(Spans(*(array[order] for array in spans)))
    return Spans(*(array[new] for array in spans))


def _candidates(context, n_best, starts, ends, start_scores, end_scores):
    best = {}
    for start, end, *scores in zip(starts, ends, start_scores, end_scores, strict=True):
        text = context[start:end].strip()
        if len(best) < n_best and text:
            best.setdefault(text, scores)
    if not best:
        return [Candidate("", 1.0, 0.0, 0.0)]
    weights = np.exp([sum(scores) - sum(next(iter(best.values()))) for scores in best.values()])
    return [
        Candidate(text, float(weight / weights.sum()), *scores)
        for (text, scores), weight in zip(best.items(), weights, strict=True)
    ]


def _check_lengths(max_answer_length, n_best=1):
    if min(max_answer_length, n_best) < 1:
        raise ValueError(
            "`max_answer_length` and `n_best` must be at least 1. Received: "
            f"max_answer_length={max_answer_length}, n_best={n_best}."
        )


def _check_numbers(*arrays):
    if any(np.isnan(array).any() for array in arrays):
        raise ValueError(
            "The scores of spans must be numbers. Received: NaN. The training has diverged; take "
            "an earlier checkpoint, or train with a lower learning rate."
        )
