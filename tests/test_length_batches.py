"""Batches of similar length: every example once an epoch, any step at once, answers in order."""

import numpy as np
import pytest
import tensorflow as tf

from albert_keras import build_albert
from albert_keras.task_models import build_classifier, build_multiple_choice, build_span_predictor
from albert_keras.tasks.encoded_rows import EncodedRows
from albert_keras.tasks.length_batches import NO_CHOICE, BatchOrder, Predictor, length_batches

pytestmark = pytest.mark.both_kerases


def rows_of(lengths, choices=None, targets=None):
    """Row r is `[CLS]`, then 100 + r again and again; segment 1 begins at its last piece."""
    lengths = np.array(lengths, np.int32)
    ids = np.repeat(np.arange(len(lengths)) + 100, lengths).astype(np.uint16)
    ids[np.cumsum(lengths) - lengths] = 2
    if targets is None:
        targets = {"logits": np.arange(len(lengths), dtype=np.int32)}
    choices = None if choices is None else np.array(choices, np.int32)
    return EncodedRows(ids, lengths, lengths - 1, targets, choices)


def many(count=103, longest=60):
    return rows_of(np.random.default_rng(5).integers(3, longest + 1, count))


@pytest.mark.parametrize("count,batch_size,pool", [(103, 8, 4), (64, 8, 64), (10, 4, 2), (3, 8, 4)])
def test_every_example_occurs_once_in_every_epoch(count, batch_size, pool):
    order = BatchOrder(many(count), batch_size=batch_size, seed=3, pool_batches=pool)
    # Together these are whole epochs, which end in the middle of a batch.
    stream = [order.examples(step) for step in range(count)]
    assert {batch.shape for batch in stream} == {(batch_size,)}
    times = np.bincount(np.concatenate(stream), minlength=count)
    np.testing.assert_array_equal(times, batch_size)
    first_epoch = np.concatenate(stream[: count // batch_size] or [np.zeros(0, int)])
    assert len(set(first_epoch.tolist())) == len(first_epoch)


def test_epochs_and_seeds_have_orders_of_their_own():
    rows = many(64)
    orders = {
        tuple(np.concatenate([order.examples(epoch * 8 + step) for step in range(8)]))
        for order in (BatchOrder(rows, batch_size=8, seed=seed) for seed in range(3))
        for epoch in range(3)
    }
    assert len(orders) == 9


def test_rows_of_a_batch_are_about_as_long_and_long_batches_come_at_any_time():
    rows = many(64 * 32)
    order = BatchOrder(rows, batch_size=32)
    batches = np.array([rows.lengths[order.examples(step)] for step in range(64)])
    # 58 lengths over 64 batches: hardly any has more than two.
    assert np.ptp(batches, axis=1).max() <= 2
    means = batches.mean(axis=1)
    assert abs(np.corrcoef(means, np.arange(64))[0, 1]) < 0.3
    unsorted = BatchOrder(rows, batch_size=32, pool_batches=1)
    assert np.ptp(rows.lengths[unsorted.examples(0)]) > 30


@pytest.mark.parametrize("start", [1, 7, 12, 13, 40])
def test_any_step_can_be_the_first(start):
    rows = many()
    settings = {"batch_size": 8, "max_length": 64, "seed": 1, "pool_batches": 4}
    whole = list(length_batches(rows, **settings)(0).take(start + 6).as_numpy_iterator())
    again = length_batches(rows, **settings)(start).take(6).as_numpy_iterator()
    for (inputs, targets), (expected, labels) in zip(again, whole[start:], strict=True):
        np.testing.assert_array_equal(targets["logits"], labels["logits"])
        for name in expected:
            np.testing.assert_array_equal(inputs[name], expected[name])


def test_a_batch_is_padded_to_a_multiple_and_holds_each_rows_own_pieces():
    batches = length_batches(many(), batch_size=8, max_length=50 + 10, pool_batches=4)(0)
    widths = set()
    for inputs, targets in batches.take(40).as_numpy_iterator():
        lengths = inputs["padding_mask"].sum(axis=1)
        width = inputs["token_ids"].shape[1]
        widths.add(width)
        assert width == min(-(-lengths.max() // 16) * 16, 60)
        for row, label in enumerate(targets["logits"]):
            expected = [2] + [100 + label] * (lengths[row] - 1) + [0] * (width - lengths[row])
            assert inputs["token_ids"][row].tolist() == expected
            assert inputs["segment_ids"][row].nonzero()[0].tolist() == [lengths[row] - 1]
    assert widths == {16, 32, 48, 60}


def test_for_a_tpu_every_batch_has_one_static_shape():
    batches = length_batches(many(), batch_size=8, max_length=64, multiple=64)(0)
    inputs, targets = batches.element_spec
    assert {tuple(spec.shape) for spec in inputs.values()} == {(8, 64)}
    assert targets["logits"].shape == [8]
    assert next(iter(batches))[0]["token_ids"].shape == (8, 64)


def test_targets_keep_their_type_and_shape():
    targets = {"start_logits": np.array([4, 5], np.int32), "score": np.ones([2, 3], np.float32)}
    batches = length_batches(rows_of([9, 9], targets=targets), batch_size=2, max_length=16)(0)
    specs = batches.element_spec[1]
    assert specs["score"] == tf.TensorSpec([2, 3], tf.float32)
    assert specs["start_logits"] == tf.TensorSpec([2], tf.int32)
    assert sorted(next(iter(batches))[1]["start_logits"].numpy()) == [4, 5]


def test_examples_of_several_choices_are_filled_up_with_padding_that_is_marked():
    # Rows 0 1 2 are of the first example, 3 4 of the second.
    rows = rows_of([4, 20, 6, 5, 7], [3, 2], {"logits": np.array([2, 0], np.int32)})
    for multiple, width in ((16, 32), (40, 40)):
        batches = length_batches(rows, batch_size=2, max_length=40, multiple=multiple)
        inputs, targets = next(batches(0).as_numpy_iterator())
        assert inputs["token_ids"].shape == (2, 3, width)
        first = int(np.argmax(inputs["token_ids"][:, 0, 1] == 100))
        second = 1 - first
        assert inputs["token_ids"][first, :, 1].tolist() == [100, 101, 102]
        assert inputs["token_ids"][second, :, 1].tolist() == [103, 104, 0]
        lengths = inputs["padding_mask"].sum(axis=2)
        assert lengths[first].tolist() == [4, 20, 6] and lengths[second].tolist() == [5, 7, 0]
        assert not inputs["segment_ids"][second, 2].any()
        assert targets["logits"][first].tolist() == [0, 0, 1]
        assert targets["logits"][second].tolist() == [1, 0, NO_CHOICE]


def test_a_pool_keeps_examples_of_as_many_choices_together():
    choices = [2, 4] * 16
    lengths = np.random.default_rng(0).integers(3, 60, sum(choices))
    rows = rows_of(lengths, choices, {"logits": np.zeros(32, np.int32)})
    batches = length_batches(rows, batch_size=4, max_length=64)(0).take(8)
    shapes = [inputs["token_ids"].shape[1] for inputs, _ in batches]
    assert sorted(shapes) == [2] * 4 + [4] * 4


@pytest.mark.parametrize(
    "settings",
    [
        *({"batch_size": 0}, {"pool_batches": 0}, {"seed": -1}, {"seed": 2**32}),
        *({"multiple": 0}, {"max_length": 59}),
    ],
)
def test_numbers_out_of_range_are_refused(settings):
    rows = rows_of([60, 5])
    with pytest.raises(ValueError, match="must be.*Received"):
        length_batches(rows, **{"batch_size": 2, "max_length": 64} | settings)


def test_fit_traces_its_step_once_for_all_widths():
    traces = []

    class Model(tf.keras.Model):
        def train_step(self, data):
            traces.append(data[0]["token_ids"].shape)
            return {"longest": tf.shape(data[0]["token_ids"])[1]}

    model = Model()
    model.compile()
    batches = length_batches(many(), batch_size=8, max_length=64, pool_batches=4)(0)
    model.fit(batches, steps_per_epoch=30, verbose=0, shuffle=False)
    # Keras 3 traces a step twice, the first time to build the model.
    assert 0 < len(traces) <= 2


def with_other_weights(model):
    """So far apart from each other that no two rows are given nearly the same."""
    draws = np.random.default_rng(0)
    model.set_weights([draws.normal(0, 0.5, weight.shape) for weight in model.get_weights()])
    return model


def direct(model, rows, row):
    """The model's answer about one row alone, without padding."""
    ids = rows.ids[rows.splits[row] : rows.splits[row + 1]][np.newaxis].astype(np.int32)
    positions = np.arange(ids.shape[1])[np.newaxis]
    segments = (positions >= rows.second_starts[row]).astype(np.int32)
    inputs = {"token_ids": ids, "segment_ids": segments, "padding_mask": 0 * ids + 1}
    return model({name: tf.constant(value) for name, value in inputs.items()}, training=False)


@pytest.mark.parametrize("multiple", [16, 64])
def test_predictions_are_in_the_order_of_the_examples(multiple):
    rows = many(30)
    settings = {"batch_size": 4, "max_length": 64, "multiple": multiple}
    for build in (lambda encoder: build_classifier(encoder, 3), build_span_predictor):
        model = with_other_weights(build(build_albert("tiny", vocab_size=400)))
        whole = list(Predictor(model, **settings)(rows))
        blocks = list(Predictor(model, **settings)(rows.blocks(7)))
        assert len(whole) == len(blocks) == 30
        first = np.array([next(iter(answer.values()))[0] for answer in whole])
        assert np.diff(np.sort(first)).min() > 1e-4 * np.ptp(first)
        for row, (answer, other) in enumerate(zip(whole, blocks, strict=True)):
            for name, expected in direct(model, rows, row).items():
                expected = expected.numpy()[0]
                for found in (answer[name], other[name]):
                    np.testing.assert_allclose(
                        found[: len(expected)], expected, rtol=1e-4, atol=1e-4
                    )


def test_predictions_of_choices_are_those_of_the_choices_alone():
    rows = rows_of([4, 20, 6, 5, 7], [3, 2], {})
    model = with_other_weights(build_multiple_choice(build_albert("tiny", vocab_size=400)))
    answers = list(Predictor(model, batch_size=2, max_length=32)(rows))
    alone = rows_of([4, 20, 6, 5, 7], [1] * 5, {})
    scores = [answer["logits"] for answer in Predictor(model, batch_size=1, max_length=32)(alone)]
    scores = np.concatenate(scores)
    assert np.isfinite(answers[1]["logits"]).all() and len(answers[1]["logits"]) == 3
    np.testing.assert_allclose(answers[0]["logits"], scores[:3], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(answers[1]["logits"][:2], scores[3:], rtol=1e-4, atol=1e-4)
    assert np.diff(np.sort(scores)).min() > 2e-3


def test_blocks_are_predicted_before_the_next_is_made():
    model = build_classifier(build_albert("tiny", vocab_size=400), 2)
    made = []

    def blocks():
        for block in many(12).blocks(4):
            made.append(len(block))
            yield block

    answers = Predictor(model, batch_size=2, max_length=64)(blocks())
    for _ in range(4):
        next(answers)
    assert made == [4]
