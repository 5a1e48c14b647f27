"""GLUE's scores against scikit-learn's and scipy's recorded ones, formulas, and edge cases."""

import doctest
import json
import math
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs the extra `tasks`")
pytest.importorskip("scipy", reason="needs the extra `tasks`")

from albert_keras.tasks import metrics  # noqa: E402
from albert_keras.tasks.metrics import (  # noqa: E402
    METRICS,
    accuracy,
    f1,
    matthews,
    pearson,
    scores,
    spearman,
)


def test_the_examples_run():
    assert not doctest.testmod(metrics).failed


def test_scores_equal_the_recorded_ones(data_folder):
    folder = data_folder / "cases" / "metrics"
    inputs = np.load(folder / "glue_inputs.npz")
    expected = json.loads((folder / "glue_expected.json").read_text())
    compared = 0
    for name, values in expected.items():
        names = [metric for metric in values if metric != "kind"]
        found = scores(names, inputs[f"{name}__labels"], inputs[f"{name}__preds"])
        for metric in names:
            wanted = math.nan if values[metric] is None else values[metric]
            assert found[metric] == pytest.approx(wanted, abs=1e-6, nan_ok=True), (name, metric)
            compared += 1
    assert len(expected) == 29 and compared == 16 * 2 + 13 + 13 * 2


def test_classification_scores_equal_their_formulas_with_counts_beyond_32_bits():
    tp, fp, fn, tn = 120_000, 30_000, 20_000, 130_000
    labels = np.repeat(np.array([1, 0, 1, 0], np.int32), [tp, fp, fn, tn])
    predictions = np.repeat(np.array([1, 1, 0, 0], np.int32), [tp, fp, fn, tn])
    assert accuracy(labels, predictions) == pytest.approx((tp + tn) / 300_000, abs=1e-12)
    assert f1(labels, predictions) == pytest.approx(2 * tp / (2 * tp + fp + fn), abs=1e-12)
    root = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    assert matthews(labels, predictions) == pytest.approx((tp * tn - fp * fn) / root, abs=1e-12)
    assert f1(1 - labels, 1 - predictions) != pytest.approx(f1(labels, predictions), abs=1e-3)


def test_f1_is_that_of_class_1_among_three():
    assert f1([0, 1, 2, 1], [2, 1, 1, 0]) == pytest.approx(0.5)


@pytest.mark.parametrize("correlation", [pearson, spearman])
@pytest.mark.parametrize(
    ("labels", "predictions"),
    [
        ([1.0, 2.0, 3.0], [0.1, 0.1, 0.1]),
        ([0.1, 0.1, 0.1], [1.0, 2.0, 3.0]),
        ([0.1, 0.1], [0.1, 0.1]),
        ([1.0], [2.0]),
        ([1.0, 2.0, 3.0], [1.0, math.nan, 3.0]),
        ([1.0, 2.0, 3.0], [1.0, math.inf, 3.0]),
    ],
)
def test_a_correlation_that_is_not_defined_is_nan(correlation, labels, predictions):
    for dtype in (np.float32, np.float64):
        assert math.isnan(correlation(np.array(labels, dtype), np.array(predictions, dtype)))


def test_a_common_offset_changes_no_correlation_even_of_float32():
    # Whole numbers below 2^24, which float32 holds exactly.
    labels = np.array([0, 3, 1, 4, 2, 5], np.float32)
    predictions = np.array([1, 2, 0, 5, 3, 4], np.float32)
    differences = labels - predictions
    by_ranks = 1 - 6 * (differences**2).sum() / (6 * 35)
    for offset in (0, 1e7):
        shifted = predictions + np.float32(offset)
        assert spearman(labels, shifted) == pytest.approx(by_ranks, abs=1e-12)
        assert pearson(labels, shifted) == pytest.approx(by_ranks, abs=1e-12)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(
    ("labels", "predictions"), [([], []), ([1, 0], [1]), ([[1, 0]], [[1, 0]]), ([1], [[1]])]
)
def test_other_shapes_are_refused(name, labels, predictions):
    with pytest.raises(ValueError, match="must be as many, one or more.*Received: shapes"):
        METRICS[name](labels, predictions)


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="one of accuracy, f1, .* Received: 'bleu'"):
        scores(["accuracy", "bleu"], [1], [1])


@pytest.mark.parametrize("module", ["sklearn.metrics", "scipy.stats"])
def test_a_missing_library_is_named_with_what_to_install(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    metric = f1 if module == "sklearn.metrics" else pearson
    with pytest.raises(ImportError, match="scikit-learn and scipy.*extra `tasks`"):
        metric([1, 0], [1, 0])
