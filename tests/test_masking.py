"""The rules of n-gram masking, and the positions it chooses against a sampler in plain loops."""

import numpy as np
import pytest
import tensorflow as tf

from albert_keras import masking
from albert_keras.masking import INSIDE, SPECIAL, START, ngram_mask
from tests.masking_sampler import reference_sample, words_of

CLS, SEP, MASK, PAD = 2, 3, 4, 0


def vocabulary(size=40, inside=()):
    """Kinds of pieces 0..size-1: five special ones, then words, some of them continuations."""
    kinds = np.full(size, START, np.int8)
    kinds[:5] = SPECIAL
    kinds[list(inside)] = INSIDE
    return kinds


def random_rows(rng, rows, length):
    """Rows of [CLS] ... [SEP] (... [SEP]) padding, with words of one to twenty pieces."""
    kinds = vocabulary(60, inside=range(30, 60))
    ids = np.full((rows, length), PAD, np.int32)
    for row in ids:
        used = rng.integers(3, length + 1)
        start_share = rng.choice([0.05, 0.4, 0.8, 1.0])
        is_start = rng.random(used) < start_share
        row[:used] = np.where(is_start, rng.integers(5, 30, used), rng.integers(30, 60, used))
        row[0], row[used - 1] = CLS, SEP
        if rng.random() < 0.7:
            row[rng.integers(1, used)] = SEP
    return ids, kinds


def test_a_span_ends_at_a_special_piece():
    ordinary = tf.constant([[False, True, True, False, True, True, False, False]])
    nothing_drawn_short = tf.fill([1, 8], tf.constant(2**32 - 1, tf.uint32))  # all spans of N words
    spans = masking._span_numbers(ordinary, ordinary, nothing_drawn_short, 5).numpy()[0]
    assert spans[1] == spans[2] != spans[4] == spans[5]


@pytest.mark.parametrize(
    "max_predictions,rate,length", [(20, 0.15, 60), (5, 0.15, 33), (12, 0.4, 40)]
)
def test_chosen_positions_and_fill_agree_with_an_independent_sampler(max_predictions, rate, length):
    rng = np.random.default_rng(7)
    kinds = vocabulary(60, inside=range(30, 60))
    row = np.where(
        rng.random(length) < 0.7, rng.integers(5, 30, length), rng.integers(30, 60, length)
    )
    row[[0, length // 3, length - 4]] = CLS, SEP, SEP
    row[-3:] = PAD
    draws = 10_000
    result = ngram_mask(
        np.tile(row, (draws, 1)), kinds, [1, 2], max_predictions=max_predictions, rate=rate
    )
    weights = result["masked_weights"].numpy()
    ours = np.zeros((draws, length))
    np.put_along_axis(ours, result["masked_positions"].numpy(), 1.0, axis=1)
    ours[:, 0] = 0  # unused slots point there
    theirs = np.zeros((draws, length))
    for drawn in theirs:
        drawn[reference_sample(rng, row, kinds, max_predictions, rate=rate)] = 1

    # Differences of means over independent draws, in standard deviations: 4.5 is beyond chance.
    def differs(a, b):
        deviation = np.sqrt((a.var(axis=0) + b.var(axis=0)) / draws)
        return np.abs(a.mean(axis=0) - b.mean(axis=0)) > 4.5 * np.maximum(deviation, 1e-9)

    assert not differs(ours, theirs).any()
    # Pairs of neighbours: spans of the right lengths, not only the right number of tokens.
    assert not differs(ours[:, 1:] * ours[:, :-1], theirs[:, 1:] * theirs[:, :-1]).any()
    assert not differs(ours[:, 2:] * ours[:, :-2], theirs[:, 2:] * theirs[:, :-2]).any()
    fill = weights.sum(axis=1)
    np.testing.assert_array_equal(fill, ours.sum(axis=1))
    assert not differs(fill[:, None], theirs.sum(axis=1)[:, None]).any()
    budget = min(max_predictions, round(rate * (length - 3)))
    assert fill.mean() / budget > 0.97


def test_the_budget_is_filled_when_every_word_is_one_piece():
    row = np.array([[CLS, *range(5, 37), SEP]])
    result = ngram_mask(np.tile(row, (500, 1)), vocabulary(), [0, 0], max_predictions=5)
    assert (result["masked_weights"].numpy().sum(axis=1) == 5).all()


@pytest.mark.parametrize("length,max_predictions", [(40, 6), (128, 20), (12, 30), (33, 3)])
def test_every_row_keeps_the_rules(length, max_predictions):
    rng = np.random.default_rng(length)
    ids, kinds = random_rows(rng, 300, length)
    result = {
        name: value.numpy()
        for name, value in ngram_mask(ids, kinds, [5, 6], max_predictions=max_predictions).items()
    }
    for name, dtype in (
        ("token_ids", "int32"),
        ("masked_positions", "int32"),
        ("masked_ids", "int32"),
        ("masked_weights", "float32"),
    ):
        assert result[name].dtype == dtype
        assert result[name].shape == (300, length if name == "token_ids" else max_predictions)
    for row in range(len(ids)):
        used = int(result["masked_weights"][row].sum())
        assert result["masked_weights"][row].tolist() == [1] * used + [0] * (max_predictions - used)
        assert not result["masked_positions"][row, used:].any()
        assert not result["masked_ids"][row, used:].any()
        positions = result["masked_positions"][row, :used]
        assert (np.diff(positions) > 0).all()
        np.testing.assert_array_equal(result["masked_ids"][row, :used], ids[row, positions])
        assert (kinds[ids[row, positions]] != SPECIAL).all()

        others = np.delete(np.arange(length), positions)
        np.testing.assert_array_equal(result["token_ids"][row, others], ids[row, others])
        changed = result["token_ids"][row, positions]
        assert ((kinds[changed] != SPECIAL) | (changed == MASK)).all()

        budget = min(max_predictions, max(1, round(0.15 * np.count_nonzero(ids[row] != PAD))))
        longest = min(8, budget)
        words = words_of(ids[row], kinds, longest)
        assert used <= budget
        # Either everything is masked, or the word that came next was too long for what was left.
        assert used == sum(map(len, words)) or used > budget - longest
        taken = set(positions.tolist())
        assert all(taken.issuperset(word) or taken.isdisjoint(word) for word in words)


def test_a_row_without_words_masks_nothing():
    ids = np.array([[CLS, SEP, PAD, PAD], [PAD, PAD, PAD, PAD], [CLS, 9, SEP, PAD]])
    result = ngram_mask(ids, vocabulary(), [1, 1], max_predictions=2)
    assert result["masked_weights"].numpy().tolist() == [[0, 0], [0, 0], [1, 0]]
    np.testing.assert_array_equal(result["token_ids"][:2], ids[:2])
    assert result["masked_positions"].numpy()[2].tolist() == [1, 0]


def test_a_word_of_more_than_eight_pieces_is_cut_into_eights():
    kinds = vocabulary(10, inside=[9])
    ids = np.array([[CLS, 5, *[9] * 19, SEP, *[PAD] * 10]])
    seen = set()
    for seed in range(40):
        result = ngram_mask(ids, kinds, [seed, 0], max_predictions=10, rate=0.5, ngram=1)
        seen.add(tuple(result["masked_positions"].numpy()[0][result["masked_weights"][0] > 0]))
    assert seen == {tuple(range(1, 9)), tuple(range(9, 17)), tuple(range(17, 21))}


@pytest.mark.parametrize("rows,length", [(16, 64), (3, 17)])
def test_eager_graph_and_xla_agree_for_equal_seeds(rows, length):
    ids, kinds = random_rows(np.random.default_rng(3), rows, length)

    def mask(ids, seed):
        return ngram_mask(ids, kinds, seed, max_predictions=9)

    ids = tf.constant(ids)
    for seed in ([1, 2], [2**31 - 1, 77]):
        seed = tf.constant(seed, tf.int64)
        eager = mask(ids, seed)
        graph = tf.function(mask)(ids, seed)
        xla = tf.function(mask, jit_compile=True)(ids, seed)
        in_dataset = next(iter(tf.data.Dataset.from_tensors((ids, seed)).map(mask)))
        for name, value in eager.items():
            for other in (graph, xla, in_dataset):
                np.testing.assert_array_equal(value, other[name], err_msg=name)


def test_other_seeds_give_other_masks_and_equal_seeds_the_same():
    ids, kinds = random_rows(np.random.default_rng(3), 16, 64)
    positions = [
        ngram_mask(ids, kinds, seed, max_predictions=9)["masked_positions"].numpy().tolist()
        for seed in ([1, 2], [1, 2], [1, 3], [2, 2])
    ]
    assert positions[0] == positions[1]
    assert positions[0] != positions[2] and positions[0] != positions[3]


def test_no_shape_depends_on_values():
    ids, kinds = random_rows(np.random.default_rng(3), 4, 32)

    def mask(ids, seed):
        return ngram_mask(ids, kinds, seed, max_predictions=5)

    compiled = tf.function(mask, jit_compile=True)
    hlo = compiled.experimental_get_compiler_ir(tf.constant(ids), tf.constant([1, 2]))(stage="hlo")
    assert "<=" not in hlo  # XLA's notation for a bounded, dynamic dimension
    traced = tf.function(mask).get_concrete_function(
        tf.TensorSpec([None, 32], tf.int32), tf.TensorSpec([2], tf.int64)
    )
    assert traced.structured_outputs["token_ids"].shape.as_list() == [None, 32]
    assert traced.structured_outputs["masked_positions"].shape.as_list() == [None, 5]


@pytest.mark.parametrize(
    "arguments,message",
    [
        ({"max_predictions": 0}, "at least 1"),
        ({"ngram": 0}, "at least 1"),
        ({"rate": 0.0}, r"`rate` must be in \(0, 1\]. Received: 0.0"),
        ({"mask_fraction": 0.95}, "sum to at most 1. Received: 0.95 and 0.1"),
        ({"token_ids": np.zeros([3], np.int32)}, r"shape \[B, S\]"),
        ({"piece_kinds": np.array([0, 3])}, "0 .special., 1 .inside a word. and 2"),
        ({"piece_kinds": np.array([0, 0])}, "no ordinary piece"),
    ],
)
def test_a_wrong_argument_is_named(arguments, message):
    arguments = {
        "token_ids": np.full((1, 4), 7),
        "piece_kinds": vocabulary(),
        "seed": [0, 0],
        "max_predictions": 2,
        **arguments,
    }
    with pytest.raises(ValueError, match=message):
        ngram_mask(**arguments)


def test_kinds_of_pieces_must_be_known_when_traced():
    @tf.function
    def mask(ids, kinds):
        return ngram_mask(ids, kinds, [0, 0], max_predictions=2)

    with pytest.raises(ValueError, match="must have known values"):
        mask(tf.fill([1, 4], 7), tf.constant(vocabulary()))
