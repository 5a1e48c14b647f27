"""What the numbers of a run are called, how they are shown, and what they are compared with."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from albert_keras.report.curves import Point
from albert_keras.report.figures import grouped, percent
from albert_keras.report.run_record import Evaluation, finite


@dataclasses.dataclass(frozen=True)
class Measure:
    """One of the numbers of metrics.jsonl or of an evaluation.

    Args:
        title: what it is about.
        unit: as an axis names it.
        show: a value with its unit or without.
        lower_is_better: bool. Default False.
        baseline: name of what it must beat, and the key of its value in an evaluation, or the
            value. None: nothing.
        from_zero: whether an axis of it begins at 0. Default False.
        compared: whether training and held-out data both have it. Default True.
        count: key of an evaluation's number of examples, and what they are.
    """

    title: str
    unit: str
    show: Callable[[float], str]
    lower_is_better: bool = False
    baseline: tuple[str, str | float] | None = None
    from_zero: bool = False
    compared: bool = True
    count: tuple[str, str] | None = None

    def baseline_in(self, scores: Mapping[str, Any]) -> tuple[str, float] | None:
        """Name and value of the baseline, as far as these scores have it."""
        if self.baseline is None:
            return None
        name, value = self.baseline
        value = finite(scores.get(value)) if isinstance(value, str) else value
        return None if value is None else (name, value)

    def difference(self, value: float, baseline: float) -> str:
        """How far a value is from its baseline, and on which side."""
        gap = abs(value - baseline)
        shown = f"{100 * gap:.1f} points" if self.unit == "%" else f"{gap:.3f}"
        return f"{shown} {'below' if value < baseline else 'above'}"


def _nats(value: float) -> str:
    return f"{value:.3f}"


def _share(title: str, baseline=None, count=None) -> Measure:
    return Measure(title, "%", percent, baseline=baseline, count=count)


def _loss(title: str, unit: str = "nats", baseline=None, count=None) -> Measure:
    return Measure(title, unit, _nats, lower_is_better=True, baseline=baseline, count=count)


def _correlation(title: str) -> Measure:
    return Measure(title, "", _nats, compared=False, count=("examples", "examples"))


def _official(title: str) -> Measure:
    """Of SQuAD's scripts, in percent as they give it."""
    return Measure(title, "%", "{:.1f} %".format, compared=False, count=("examples", "questions"))


# In the order in which a page shows them.
MEASURES = {
    "loss": _loss("Loss"),
    "mlm_loss": _loss(
        "Masked pieces, loss",
        "nats a piece",
        ("unigram entropy", "unigram_entropy"),
        ("masked_tokens", "masked pieces"),
    ),
    "mlm_accuracy": _share("Masked pieces, right", count=("masked_tokens", "masked pieces")),
    "sop_accuracy": _share("Sentence order, right", ("chance", 0.5), ("sop_examples", "pairs")),
    "sop_loss": _loss(
        "Sentence order, loss", "nats a pair", ("chance", math.log(2)), ("sop_examples", "pairs")
    ),
    "nsp_accuracy": _share("Next sentence, right", ("chance", 0.5), ("nsp_examples", "pairs")),
    "nsp_loss": _loss(
        "Next sentence, loss", "nats a pair", ("chance", math.log(2)), ("nsp_examples", "pairs")
    ),
    "accuracy": _share(
        "Answers, right", ("most frequent label", "majority"), ("examples", "examples")
    ),
    "f1": _share("F1 of label 1", count=("examples", "examples")),
    "matthews": _correlation("Matthews correlation"),
    "pearson": _correlation("Pearson correlation"),
    "spearman": _correlation("Spearman correlation"),
    "squad_exact_match": _official("Answers, exact"),
    "squad_exact": _official("Answers, exact"),
    "squad_f1": _official("Answers, F1 of their words"),
    "answerability": _share(
        "Whether there is an answer, right",
        ("more frequent", "answerability_majority"),
        ("examples", "questions"),
    ),
    "learning_rate": Measure("Learning rate", "", "{:.3g}".format, from_zero=True, compared=False),
    "tokens_per_second": Measure("Speed", "tokens/s", grouped, from_zero=True, compared=False),
}


@dataclasses.dataclass(frozen=True)
class Score:
    """A measure on one corpus over the evaluations.

    Attributes:
        key: of `MEASURES`.
        corpus: its name; None where there is a single one.
        points: its values in the order of their steps, at least one.
        baseline: name and value of what the last one must beat, or None.
        count: what the last one is a mean of, "4,633 pairs", or None.
    """

    key: str
    corpus: str | None
    points: list[Point]
    baseline: tuple[str, float] | None
    count: str | None

    @property
    def measure(self) -> Measure:
        return MEASURES[self.key]

    @property
    def last(self) -> Point:
        return self.points[-1]

    @property
    def best(self) -> Point:
        """The first of equal ones."""
        choose = min if self.measure.lower_is_better else max
        return choose(self.points, key=lambda point: point.value)

    @property
    def verdict(self) -> str | None:
        """What the last value says against its baseline, of which an interval must be clear."""
        if self.baseline is None:
            return None
        (name, baseline), interval = self.baseline, self.last.interval
        shown = f"{name} ({self.measure.show(baseline)})"
        if interval and interval[0] <= baseline <= interval[1]:
            return f"cannot be told from {shown}"
        return f"{self.measure.difference(self.last.value, baseline)} {shown}"


def scores_of(evaluations: list[Evaluation]) -> list[Score]:
    """The scores of each corpus, in the order of `MEASURES`."""
    corpora = {}
    for evaluation in evaluations:
        corpora.setdefault(evaluation.corpus, []).append(evaluation)
    scores = []
    for corpus, found in corpora.items():
        for key, measure in MEASURES.items():
            having = [one for one in found if finite(one.scores.get(key)) is not None]
            if not having:
                continue
            last = having[-1].scores
            count_key, counted = measure.count or (None, None)
            count = finite(last.get(count_key))
            scores.append(
                Score(
                    key,
                    corpus,
                    [
                        Point(one.step, one.scores[key], _interval(one.scores, key))
                        for one in having
                    ],
                    measure.baseline_in(last),
                    f"{grouped(count)} {counted}" if count is not None else None,
                )
            )
    return scores


def _interval(scores, key):
    bounds = scores.get(f"{key}_interval")
    if not isinstance(bounds, list) or len(bounds) != 2:
        return None
    low, high = map(finite, bounds)
    return None if low is None or high is None else (low, high)
