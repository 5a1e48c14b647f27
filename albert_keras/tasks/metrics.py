"""The scores of GLUE, by scikit-learn and scipy in float64."""

import warnings
from collections.abc import Callable, Sequence

import numpy as np


def accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    """The share of predictions that are right.

    >>> accuracy([0, 1, 2, 1], [0, 1, 1, 1])
    0.75
    """
    labels, predictions = _rows(labels, predictions)
    return float((labels == predictions).mean())  # for a mean nobody needs another package


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """F1 of class 1, as a share; 0 where no label and no prediction is 1.

    >>> f1([0, 1, 1, 1, 0], [0, 1, 1, 0, 1])  # precision 2/3, recall 2/3
    0.6666666666666666
    """
    labels, predictions = _rows(labels, predictions)
    # Of class 1 against all others: scikit-learn refuses a third label.
    score = _imported("sklearn.metrics").f1_score(labels == 1, predictions == 1, zero_division=0)
    return float(score)


def matthews(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Matthews correlation, of any number of classes; 0 where all labels or predictions are one.

    >>> matthews([0, 0, 1, 1], [0, 1, 1, 1])  # (1*2 - 1*0) / sqrt(3*2*2*1)
    0.5773502691896258
    """
    labels, predictions = _rows(labels, predictions)
    with warnings.catch_warnings():
        # scikit-learn warns of a single class, whose result is defined.
        warnings.simplefilter("ignore", UserWarning)
        return float(_imported("sklearn.metrics").matthews_corrcoef(labels, predictions))


def pearson(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Pearson correlation. NaN where it is not defined: of constant labels or predictions, of a
    single example, and of numbers that are not finite.

    >>> round(pearson([0.0, 1.0, 5.0], [1.0, 2.0, 3.0]), 6)
    0.944911
    """
    return _correlation("pearsonr", labels, predictions)


def spearman(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Spearman's rank correlation, equal values having the mean of their ranks. NaN as `pearson`.

    >>> round(spearman([0.0, 1.0, 5.0], [1.0, 2.0, 300.0]), 6)
    1.0
    """
    return _correlation("spearmanr", labels, predictions)


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
}


def scores(names: Sequence[str], labels: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """Several of `METRICS`, by name.

    Args:
        names: of the metrics.
        labels: `(n,)`, n > 0: numbers of classes, or what a regression should give.
        predictions: `(n,)`, numbers of the classes predicted, or what the regression gave.

    Raises:
        ValueError: an unknown name, no examples, or labels and predictions of different shapes.
        ImportError: scikit-learn or scipy is missing.

    Example:

    >>> scores(["accuracy", "f1"], [0, 1], [1, 1])
    {'accuracy': 0.5, 'f1': 0.6666666666666666}
    """
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise ValueError(f"A metric is one of {', '.join(METRICS)}. Received: {unknown[0]!r}.")
    return {name: METRICS[name](labels, predictions) for name in names}


def _correlation(name, labels, predictions):
    # In float64: in float32 the squares of a large common offset swallow all differences.
    labels, predictions = (rows.astype(np.float64) for rows in _rows(labels, predictions))
    finite = np.isfinite(labels).all() and np.isfinite(predictions).all()
    if len(labels) < 2 or not finite:
        return float("nan")
    with warnings.catch_warnings():
        # scipy warns of constant numbers and gives NaN, which says the same.
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(getattr(_imported("scipy.stats"), name)(labels, predictions).statistic)


def _rows(labels, predictions):
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    if labels.ndim != 1 or labels.shape != predictions.shape or not len(labels):
        raise ValueError(
            "Labels and predictions must be as many, one or more, in one dimension. Received: "
            f"shapes {labels.shape} and {predictions.shape}."
        )
    return labels, predictions


def _imported(module):
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"These scores need scikit-learn and scipy ({error}). Install them: pip install "
            "scikit-learn scipy, or this library with its extra `tasks`."
        ) from error
