"""Mixtures of record sets: which set each row of an endless stream is from, in closed form."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_keras.data.record_set import RecordSet

# Rows after which the pattern of sets begins again: shares are kept to a hundredth of a percent.
_PERIOD = 10_000


def mixed_sets(records: RecordSet | Sequence[RecordSet]) -> list[RecordSet]:
    """One record set or several, as a list of sets that one model can read.

    Raises:
        ValueError: no set, or sets of two vocabularies; with their names.
    """
    sets = [records] if isinstance(records, RecordSet) else list(records)
    if not sets:
        raise ValueError("`records` must be a record set or several. Received: an empty list.")
    vocabularies = [records.manifest["vocabulary"]["sha256"] for records in sets]
    for other, sha256 in zip(sets, vocabularies, strict=True):
        if sha256 != vocabularies[0]:
            raise ValueError(
                "Record sets that are mixed must have the same vocabulary. Received: "
                f"{sets[0].folder} (sha256 {vocabularies[0][:12]}…) and {other.folder} "
                f"({sha256[:12]}…). Write one of them again with the vocabulary of the other."
            )
    return sets


def mixing_pattern(sets: Sequence[RecordSet], weights: Sequence[float] | None = None) -> np.ndarray:
    """The set of each row of one period: every set at its share, spread as evenly as can be.

    A set with n rows in the period wants its i-th one at (i + 1/2) / n of it; rows are in the order
    of what they want. So any stretch of rows, a batch as well, has each set at nearly its share.

    Args:
        sets: K record sets.
        weights: K numbers above 0, in the ratio of the shares of the rows. Default: the numbers of
            records, with which the epochs of all sets are equally long. A share is rounded to a
            ten-thousandth, and is at least that.

    Returns:
        int64 [P], of 0..K-1; P about 10,000, or what is left of that when divided by what all sets'
        rows have in common.

    Raises:
        ValueError: weights that are not K finite numbers above 0.

    Example:
        >>> mixing_pattern([books, wikipedia], [3, 1])
        array([0, 0, 1, 0])
    """
    given = [records.num_records for records in sets] if weights is None else list(weights)
    if len(given) != len(sets) or not all(0 < weight < math.inf for weight in given):
        raise ValueError(
            f"`weights` must be a finite number above 0 for each record set. Received: {given} for "
            f"{len(sets)} sets. Leave out a set that is to have no rows."
        )
    total = math.fsum(given)
    rows = [max(1, round(_PERIOD * (weight / total))) for weight in given]
    common = math.gcd(*rows)
    rows = [count // common for count in rows]
    wanted = np.concatenate([(np.arange(count) + 0.5) / count for count in rows])
    return np.repeat(np.arange(len(rows)), rows)[np.argsort(wanted, kind="stable")]


def rows_before(pattern: np.ndarray, row: int) -> list[int]:
    """How many of the first `row` rows of the stream are from each set."""
    periods, rest = divmod(row, len(pattern))
    in_period = np.bincount(pattern)
    in_rest = np.bincount(pattern[:rest], minlength=len(in_period))
    return [periods * int(a) + int(b) for a, b in zip(in_period, in_rest, strict=True)]


def rows_seen(
    records: RecordSet | Sequence[RecordSet],
    weights: Sequence[float] | None = None,
    *,
    batch_size: int,
    steps: int,
) -> list[dict[str, Any]]:
    """What a run of so many steps has seen of each of its record sets.

    Args:
        records, weights, batch_size: as `pretraining_batches` takes them.
        steps: batches seen, at least 0.

    Returns:
        For each set: `folder`; `share` of the rows, in (0, 1]; `rows`; and `epochs`, passes over
        its records, a fraction.

    Example:
        >>> rows_seen([books, wikipedia], [3, 1], batch_size=32, steps=1000)[1]
        {'folder': 'records/wikipedia', 'share': 0.25, 'rows': 8000, 'epochs': 0.46}
    """
    sets = mixed_sets(records)
    pattern = mixing_pattern(sets, weights)
    counts = rows_before(pattern, steps * batch_size)
    shares = np.bincount(pattern) / len(pattern)
    return [
        {
            "folder": records.folder,
            "share": float(share),
            "rows": rows,
            "epochs": rows / records.num_records,
        }
        for records, share, rows in zip(sets, shares, counts, strict=True)
    ]
