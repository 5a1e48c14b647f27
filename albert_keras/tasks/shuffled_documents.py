"""How well a score of documents tells real ones from the same with their sentences shuffled."""

import random
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import numpy as np

from albert_keras.tasks.coherence import ScoredDocument
from albert_keras.tasks.interval import wilson_interval

Item = TypeVar("Item")


class Reservoir(Generic[Item]):
    """A random sample of a stream of unknown length, which alone is in memory.

    Args:
        size: int >= 0, of the sample.
        generator: draws it.

    Reference:
        Algorithm R: Vitter 1985, https://doi.org/10.1145/3147.3165
    """

    def __init__(self, size: int, generator: random.Random):
        self.items: list[Item] = []
        self._size, self._generator, self._seen = size, generator, 0

    def add(self, item: Item) -> None:
        self._seen += 1
        if len(self.items) < self._size:
            self.items.append(item)
        elif (place := self._generator.randrange(self._seen)) < self._size:
            self.items[place] = item


def has_other_order(sentences: list[str]) -> bool:
    """Whether shuffled sentences can make another document."""
    return any(sentence != sentences[0] for sentence in sentences)


def shuffle_check(
    documents: list[list[str]],
    score: Callable[[Iterable[list[str]]], Iterable[ScoredDocument]],
    generator: random.Random,
) -> dict[str, Any]:
    """Scores documents as they are and with their sentences shuffled: how well the score tells.

    Args:
        documents: lists of sentences, each of which `has_other_order`.
        score: a `CoherenceScorer`.
        generator: shuffles; an order that gives the same document is drawn again.

    Returns:
        `documents`, how many were compared, `without_a_pair`, how many more could not be, and if
        there are any: `auc`, the share of all couples of a real and a shuffled document in which
        the real one has the higher score, ties counting half, with its 95 % `auc_interval`;
        `above_its_own_shuffle`, the share of documents that score higher than themselves shuffled,
        with its interval; `mean_coherence` and `mean_coherence_shuffled`.
    """
    shuffled = [_shuffled(document, generator) for document in documents]
    couples = [
        (real.coherence, other.coherence)
        for real, other in zip(score(documents), score(shuffled), strict=True)
    ]
    scores = [couple for couple in couples if None not in couple]
    counts = {"documents": len(scores), "without_a_pair": len(couples) - len(scores)}
    if not scores:
        return counts
    real, other = np.array(scores).T
    auc, interval = paired_auc(real, other)
    above = float(np.count_nonzero(real > other) + np.count_nonzero(real == other) / 2)
    return {
        **counts,
        "auc": auc,
        "auc_interval": interval,
        "above_its_own_shuffle": above / len(scores),
        "above_its_own_shuffle_interval": wilson_interval(above, len(scores)),
        "mean_coherence": float(real.mean()),
        "mean_coherence_shuffled": float(other.mean()),
    }


def _shuffled(sentences, generator):
    other = sentences
    while other == sentences:
        other = generator.sample(sentences, len(sentences))
    return other


def paired_auc(
    positives: np.ndarray, negatives: np.ndarray
) -> tuple[float, tuple[float, float] | None]:
    """Area under the ROC curve, and its 95 % interval where item i of both comes from one document.

    The interval is that of the mean of n documents' own parts of the area: how many negatives are
    below its positive, and how many positives above its negative. None of a single document.

    Args:
        positives, negatives: float `(n,)`, scores.

    Example:

    >>> paired_auc(np.array([0.9, 0.6]), np.array([0.1, 0.7]))[0]
    0.75

    Reference:
        DeLong, DeLong and Clarke-Pearson 1988, https://doi.org/10.2307/2531595
    """
    size = len(positives)
    below, above = _share_below(positives, negatives), 1 - _share_below(negatives, positives)
    area = float(below.mean())
    if size == 1:
        return area, None
    half = 1.96 * float(np.std(below + above, ddof=1)) / size**0.5
    return area, (max(0.0, area - half), min(1.0, area + half))


def _share_below(scores, others):
    """Of each score the share of the others that are below it, equal ones counting half."""
    others = np.sort(others)
    sides = [np.searchsorted(others, scores, side) for side in ("left", "right")]
    return np.add(*sides) / (2 * len(others))
