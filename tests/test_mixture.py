"""The pattern of a mixture: its shares, how evenly it spreads them, and the counts it gives."""

import math

import numpy as np
import pytest

from albert_keras.data.mixture import mixed_sets, mixing_pattern, rows_before, rows_seen
from albert_keras.data.record_set import RecordSet


def record_set(folder, records, sha256="0" * 64):
    return RecordSet(folder, {"counts": {"chunks": records}, "vocabulary": {"sha256": sha256}})


def sets(*sizes):
    return [record_set(f"records/{number}", size) for number, size in enumerate(sizes)]


def test_rows_stand_where_their_set_wants_them():
    # Set 0 wants its rows at 1/6, 3/6 and 5/6 of a period of four, set 1 at 1/2, behind set 0's.
    assert mixing_pattern(sets(7, 7), [3, 1]).tolist() == [0, 0, 1, 0]
    assert mixing_pattern(sets(7, 7, 7), [1, 1, 1]).tolist() == [0, 1, 2]
    assert mixing_pattern(sets(7), [0.2]).tolist() == [0]


def test_shares_are_by_number_of_records_unless_weights_are_given():
    assert np.bincount(mixing_pattern(sets(300, 100))).tolist() == [3, 1]
    assert np.bincount(mixing_pattern(sets(300, 100), [0.1, 0.3])).tolist() == [1, 3]


@pytest.mark.parametrize("weights", [[0.7, 0.2, 0.1], [1, 1e-9], [5, 3.3333, 2, 0.01, 0.01]])
def test_shares_are_kept_to_a_ten_thousandth_and_no_set_is_left_out(weights):
    pattern = mixing_pattern(sets(*[9] * len(weights)), weights)
    assert len(pattern) <= 10_000 + len(weights)
    found = np.bincount(pattern, minlength=len(weights)) / len(pattern)
    np.testing.assert_allclose(found, np.array(weights) / sum(weights), atol=1.5e-4)
    assert (found > 0).all()


@pytest.mark.parametrize("count", [2, 3, 6])
def test_every_stretch_of_rows_has_the_sets_at_their_shares(count):
    weights = np.random.default_rng(count).uniform(0.01, 1, count)
    pattern = mixing_pattern(sets(*[9] * count), list(weights))
    taken = np.tile(pattern, 2)[:, None] == np.arange(count)
    shares = np.bincount(pattern) / len(pattern)
    # A row is at most as far from where its set wants it as there are other sets to go before it.
    for rows in (1, 32, 1000, len(pattern)):
        ends = np.cumsum(np.pad(taken, ((1, 0), (0, 0))), axis=0)
        found = ends[rows:] - ends[:-rows]
        assert np.abs(found - rows * shares).max() < count


def test_rows_before_counts_what_a_walk_along_the_stream_counts():
    pattern = mixing_pattern(sets(4, 4, 4), [0.5, 0.3, 0.2])
    assert len(pattern) == 10
    counts = [0, 0, 0]
    for row in range(35):
        assert rows_before(pattern, row) == counts
        counts[pattern[row % 10]] += 1
    assert rows_before(pattern, 10**15) == [5 * 10**14, 3 * 10**14, 2 * 10**14]


def test_rows_seen_says_what_a_run_saw_of_each_set():
    seen = rows_seen(sets(1000, 50), [3, 1], batch_size=8, steps=100)
    assert seen == [
        {"folder": "records/0", "share": 0.75, "rows": 600, "epochs": 0.6},
        {"folder": "records/1", "share": 0.25, "rows": 200, "epochs": 4.0},
    ]
    (alone,) = rows_seen(sets(1000)[0], batch_size=8, steps=250)
    assert alone == {"folder": "records/0", "share": 1.0, "rows": 2000, "epochs": 2.0}


@pytest.mark.parametrize(
    "weights", [[1], [1, 2, 3], [1, 0], [1, -1], [1, math.inf], [math.nan, 1], []]
)
def test_wrong_weights_are_refused(weights):
    with pytest.raises(ValueError, match="`weights` must be a finite number above 0 for each"):
        mixing_pattern(sets(5, 5), weights)


def test_sets_of_two_vocabularies_are_refused_by_name():
    one, other = record_set("books", 5), record_set("wiki", 5, sha256="1" * 64)
    with pytest.raises(ValueError, match=r"same vocabulary. Received: books \(sha.*wiki \(111"):
        mixed_sets([one, record_set("more", 5), other])
    with pytest.raises(ValueError, match="Received: an empty list"):
        mixed_sets([])
