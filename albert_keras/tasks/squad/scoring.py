"""Exact match and F1 of SQuAD, the same numbers as the official scripts of 1.1 and of 2.0."""

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_keras.tasks.squad.reading import Question, check_unique_ids

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Optimum(NamedTuple):
    """The best score that a threshold reaches.

    Attributes:
        score: in percent.
        threshold: a question whose null odds are above it is answered with nothing.
    """

    score: float
    threshold: float


def normalize_answer(text: str) -> str:
    """`text` in small letters without ASCII punctuation, English articles and surplus white space.

    Example:

    >>> normalize_answer("The  Main Building's gold dome.")
    'main buildings gold dome'
    """
    text = _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION))
    return " ".join(text.split())


def exact_match(prediction: str, gold: str) -> bool:
    """Whether the two are the same after `normalize_answer`."""
    return normalize_answer(prediction) == normalize_answer(gold)


def f1(prediction: str, gold: str) -> float:
    """Harmonic mean of precision and recall of the words, after `normalize_answer`.

    Of two without words it is 1, of one without words 0.

    Example:

    >>> round(f1("the golden statue", "a statue"), 3)
    0.667
    """
    predicted, expected = normalize_answer(prediction).split(), normalize_answer(gold).split()
    if not predicted or not expected:
        return float(predicted == expected)
    common = (Counter(predicted) & Counter(expected)).total()
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(expected)
    return 2 * precision * recall / (precision + recall)


def score_v1(questions: Iterable[Question], predictions: Mapping[str, str]) -> dict[str, float]:
    """The score of SQuAD 1.1, as evaluate-v1.1.py counts it: the best of a question's answers.

    Args:
        questions: each with a gold answer.
        predictions: a text for each question's id.

    Returns:
        exact_match and f1, in percent.

    Raises:
        ValueError: no question, one without answers, two with the same id, or a prediction that is
            missing or of no question; with the ids.

    Example:

    >>> from albert_keras.tasks.squad.reading import Answer
    >>> question = Question("q1", "Who?", "Ada wrote.", (Answer("Ada", 0), Answer("Ada wrote", 0)))
    >>> score_v1([question], {"q1": "ada"})
    {'exact_match': 100.0, 'f1': 100.0}

    Reference: https://rajpurkar.github.io/SQuAD-explorer, Rajpurkar et al. 2016, 4.1
    """
    questions = list(questions)
    _check_ids(questions, predictions, "A prediction")
    _refuse(
        "SQuAD 1.1 has answers to all questions; those of 2.0 are scored with `score_v2`.",
        [question.id for question in questions if not question.answers],
    )
    exact = f1_total = 0.0
    for question in questions:
        prediction = predictions[question.id]
        golds = [answer.text for answer in question.answers]
        exact += max(exact_match(prediction, gold) for gold in golds)
        # That script gives no F1 to a prediction without words, not even for such an answer.
        if normalize_answer(prediction):
            f1_total += max(f1(prediction, gold) for gold in golds)
    return {
        "exact_match": 100 * exact / len(questions),
        "f1": 100 * f1_total / len(questions),
    }


def score_v2(
    questions: Iterable[Question],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> dict[str, float]:
    """The score of SQuAD 2.0, key for key as evaluate-v2.0.py gives it.

    A question without answers is unanswerable, and nothing but "" is right. So is one whose answers
    have no words.

    Args:
        questions: with their answers.
        predictions: for each question's id a text, "" for no answer.
        null_odds: for each question's id how much speaks for "no answer": probabilities, logits, or
            anything that grows with it. Default None: predictions stay as they are.
        threshold: a question whose null odds are above it is answered with "". Default 1.0, as in
            the script.

    Returns:
        exact, f1 (in percent) and total; the same of the answerable questions as HasAns_* and of
        the others as NoAns_*, where there are any. With `null_odds` also best_exact, best_f1 and
        their best_exact_thresh, best_f1_thresh over all thresholds, by the script's search: it
        takes questions in the order of their odds, equal ones in the order of `null_odds`, one by
        one, so among equal ones it may report a score that no threshold reaches. See
        `reachable_optimum`.

    Raises:
        ValueError: no question, one of a test file, two with the same id, or a prediction or null
            odds that are missing, of no question, or not a number; with the ids.

    Example:

    >>> from albert_keras.tasks.squad.reading import Answer
    >>> questions = [Question("q1", "Who?", "Ada wrote.", (Answer("Ada", 0),)),
    ...              Question("q2", "When?", "Ada wrote.", (), is_impossible=True)]
    >>> score_v2(questions, {"q1": "Ada wrote", "q2": ""})["f1"]
    83.33333333333333

    Reference: https://rajpurkar.github.io/SQuAD-explorer, Rajpurkar et al. 2018
    """
    questions = list(questions)
    raw = _raw_scores(questions, predictions)
    if null_odds is not None:
        _check_odds(questions, null_odds)
    result = {}
    answerable = np.array([bool(question.answers) for question in questions])
    nulled = np.zeros(len(questions), bool)
    if null_odds is not None:
        nulled = np.array([null_odds[question.id] > threshold for question in questions])
    final = {name: np.where(nulled, ~answerable, scores) for name, scores in raw.items()}
    for prefix, some in (("", answerable | True), ("HasAns_", answerable), ("NoAns_", ~answerable)):
        if some.any():
            for name, scores in final.items():
                result[prefix + name] = 100 * float(scores[some].sum()) / int(some.sum())
            result[f"{prefix}total"] = int(some.sum())
    if null_odds is not None:
        for name, scores in raw.items():
            best, at = _official_search(questions, predictions, null_odds, scores)
            result[f"best_{name}"], result[f"best_{name}_thresh"] = best, at
    return result


def reachable_optimum(
    questions: Iterable[Question],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float],
    metric: str = "f1",
) -> Optimum:
    """The best score of SQuAD 2.0 that a threshold on the null odds really gives.

    `score_v2` with this threshold gives this score. Where no two questions have equal odds, it is
    the best one that `score_v2` reports. Of several thresholds it is the lowest.

    Args:
        questions, predictions, null_odds: as of `score_v2`.
        metric: "f1" or "exact". Default "f1".

    Raises:
        ValueError: as `score_v2`.

    Example:

    >>> from albert_keras.tasks.squad.reading import Answer
    >>> questions = [Question("q1", "Who?", "Ada wrote.", (Answer("Ada", 0),)),
    ...              Question("q2", "When?", "Ada wrote.", (), is_impossible=True)]
    >>> reachable_optimum(questions, {"q1": "Ada", "q2": "Ada"}, {"q1": -2.5, "q2": 0.5})
    Optimum(score=100.0, threshold=-2.5)
    """
    questions = list(questions)
    raw = _raw_scores(questions, predictions)
    _check_odds(questions, null_odds)
    if metric not in raw:
        raise ValueError(f"`metric` must be one of {', '.join(raw)}. Received: {metric!r}.")
    odds = np.array([null_odds[question.id] for question in questions], float)
    unanswerable = np.array([not question.answers for question in questions])
    order = np.argsort(odds, kind="stable")
    gained = (raw[metric] - unanswerable)[order]
    # Below every threshold is "answer nothing"; behind it, the ends of groups with equal odds.
    scores = unanswerable.sum() + np.concatenate([[0], np.cumsum(gained)])
    thresholds = np.concatenate([[np.nextafter(odds.min(), -np.inf)], odds[order]])
    ends = np.flatnonzero(np.append(thresholds[1:] != thresholds[:-1], True))
    best = ends[np.argmax(scores[ends])]
    return Optimum(100 * float(scores[best]) / len(questions), float(thresholds[best]))


def _raw_scores(questions, predictions) -> dict[str, np.ndarray]:
    """exact and f1 of each question as predicted, in [0, 1]."""
    _check_ids(questions, predictions, "A prediction")
    _refuse(
        "A score needs the answers, or `is_impossible`, which a test file has not.",
        [question.id for question in questions if not question.is_labelled],
    )
    exact, f1s = [], []
    for question in questions:
        golds = [answer.text for answer in question.answers if normalize_answer(answer.text)]
        prediction = predictions[question.id]
        exact.append(max(exact_match(prediction, gold) for gold in golds or [""]))
        f1s.append(max(f1(prediction, gold) for gold in golds or [""]))
    return {"exact": np.array(exact, float), "f1": np.array(f1s, float)}


def _official_search(
    questions: Sequence[Question], predictions, null_odds, scores
) -> tuple[float, float]:
    place = {question.id: index for index, question in enumerate(questions)}
    ids = sorted(null_odds, key=null_odds.get)  # stable: equal ones stay in their order
    gains = [
        scores[place[one]] if questions[place[one]].answers else -float(bool(predictions[one]))
        for one in ids
    ]
    unanswerable = sum(not question.answers for question in questions)
    walk = np.cumsum([unanswerable, *gains])
    best = int(np.argmax(walk))
    return 100 * float(walk[best]) / len(questions), float(
        null_odds[ids[best - 1]]
    ) if best else 0.0


def _check_odds(questions, null_odds):
    _check_ids(questions, null_odds, "Null odds")
    _refuse(
        "Null odds must be numbers.",
        [question.id for question in questions if not np.isfinite(null_odds[question.id])],
    )


def _check_ids(questions, values, what):
    if not questions:
        raise ValueError("There must be a question to score. Received: none.")
    check_unique_ids(questions)
    known = {question.id for question in questions}
    _refuse(
        f"{what} must be there for every question, if only as an empty text or a 0.",
        [question.id for question in questions if question.id not in values],
        "without",
    )
    _refuse(
        f"{what} must be of a question of the file; is it the right file?",
        [one for one in values if one not in known],
    )


def _refuse(rule, ids, found="with"):
    if ids:
        shown = ", ".join(map(repr, ids[:5])) + (", ..." if len(ids) > 5 else "")
        raise ValueError(f"{rule} Received: {found} {len(ids)} of them, {shown}.")
