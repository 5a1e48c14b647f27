"""The area under the curve of real against shuffled documents."""

import random
from collections import Counter

import numpy as np
import pytest

from albert_keras.tasks.coherence import ScoredDocument
from albert_keras.tasks.shuffled_documents import Reservoir, paired_auc, shuffle_check


@pytest.mark.parametrize("digits", [6, 1])  # with one there are many ties
def test_the_area_is_that_of_scikit_learn(digits):
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(digits)
    positives, negatives = np.round(rng.normal([[0.6], [0.3]], 0.3, (2, 301)), digits)
    area, _ = paired_auc(positives, negatives)
    labels = np.repeat([1, 0], 301)
    expected = metrics.roc_auc_score(labels, np.concatenate([positives, negatives]))
    assert area == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("common", [0.0, 0.4])  # what a document and its shuffle share
def test_the_interval_is_as_wide_as_that_of_a_bootstrap_over_documents(common):
    rng = np.random.default_rng(1)
    own = rng.normal(0, common, 400)
    positives, negatives = rng.normal([[0.6], [0.3]], 0.3, (2, 400)) + own
    area, (low, high) = paired_auc(positives, negatives)
    draws = rng.integers(0, 400, (1000, 400))
    areas = [paired_auc(positives[some], negatives[some])[0] for some in draws]
    assert low < area < high
    # A standard deviation of 1,000 draws is known within 2 %, the formula's own is of order 1/n.
    assert (high - low) / 2 == pytest.approx(1.96 * np.std(areas), rel=0.1)


def test_one_document_has_no_interval():
    assert paired_auc(np.array([0.7]), np.array([0.2])) == (1.0, None)


def test_a_reservoir_draws_each_item_equally_often():
    counts = Counter()
    for seed in range(2000):
        reservoir = Reservoir(3, random.Random(seed))
        for item in range(10):
            reservoir.add(item)
        assert len(set(reservoir.items)) == 3
        counts.update(reservoir.items)
    # Binomial of 2,000 and 0.3: five standard deviations are 102.
    assert all(abs(counts[item] - 600) < 102 for item in range(10))


def test_a_reservoir_of_a_short_stream_has_all_of_it():
    reservoir = Reservoir(3, random.Random(0))
    for item in range(2):
        reservoir.add(item)
    assert reservoir.items == [0, 1]


def scored_by(rule):
    """A scorer: one pair a document, whose probabilities the rule gives."""

    def score(documents):
        for sentences in documents:
            probability = rule(sentences)
            pair = np.array([] if probability is None else [probability])
            yield ScoredDocument(sentences, [0, 1, 2], pair, 1 - pair)

    return score


DOCUMENTS = [[f"{document}.{number}" for number in range(2 + document)] for document in range(8)]


def test_a_score_that_sees_the_order_tells_all_and_a_constant_one_tells_nothing():
    found = shuffle_check(
        DOCUMENTS, scored_by(lambda s: 0.9 if s == sorted(s) else 0.2), random.Random(0)
    )
    assert found["documents"] == 8 and found["without_a_pair"] == 0
    assert found["auc"] == found["above_its_own_shuffle"] == 1
    assert found["mean_coherence"] == pytest.approx(0.9)
    assert found["mean_coherence_shuffled"] == pytest.approx(0.2)
    found = shuffle_check(DOCUMENTS, scored_by(lambda s: 0.7), random.Random(0))
    assert found["auc"] == found["above_its_own_shuffle"] == 0.5


def test_shuffled_documents_have_the_same_sentences_in_another_order():
    seen = []
    shuffle_check(DOCUMENTS, scored_by(lambda s: seen.append(s) or 0.5), random.Random(3))
    others = [sentences for sentences in seen if sentences not in DOCUMENTS]
    assert len(others) == 8 and others[0] == ["0.1", "0.0"]
    assert [sorted(sentences) for sentences in others] == DOCUMENTS


def test_documents_without_a_pair_are_counted():
    rule = scored_by(lambda s: None if len(s) < 5 else 0.5)
    found = shuffle_check(DOCUMENTS, rule, random.Random(0))
    assert found["documents"] == 5 and found["without_a_pair"] == 3
    found = shuffle_check([], rule, random.Random(0))
    assert found == {"documents": 0, "without_a_pair": 0}
