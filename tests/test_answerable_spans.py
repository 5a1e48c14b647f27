"""The head of SQuAD 2.0 against NumPy: both of its forms, its loss, and that it learns."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.answerable_span_head import BEAM, AnswerableSpanHead, answer_mask
from albert_keras.model import build_albert, config_of, encoder_of
from albert_keras.rebuilding import weights_in
from albert_keras.reshaping import resize_vocabulary, with_sharing
from albert_keras.span_training import span_losses, with_gold_starts
from albert_keras.task_models import (
    build_answerable_span_predictor,
    build_classifier,
    build_span_predictor,
)
from tests.layer_contract import (
    Row,
    check_a_saved_model_reloads,
    check_bfloat16_keeps_normalisation_and_softmax_in_float32,
    check_build_makes_all_weights,
    check_config_survives_json,
    check_symbolic_and_eager_shapes_agree,
    check_xla_gives_the_eager_values,
    path_of,
)
from tests.numpy_albert import layer_norm, softmax

pytestmark = [
    pytest.mark.both_kerases,
    # Keras 3 on NumPy 2 says so whenever it saves a variable.
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword"),
]

# [CLS] question [SEP] passage [SEP]: one row full, one padded, one whose passage is a single piece.
IDS = np.array(
    [
        [2, 17, 3, 45, 99, 31, 60, 8, 77, 3],
        [2, 8, 9, 3, 7, 21, 3, 0, 0, 0],
        [2, 50, 51, 52, 53, 54, 55, 3, 12, 3],
    ],
    "int32",
)
SEGMENTS = np.array(
    [[0, 0, 0, 1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 0, 0, 0], [0] * 8 + [1, 1]], "int32"
)
ALLOWED = np.array(
    [[1, 0, 0, 1, 1, 1, 1, 1, 1, 0], [1, 0, 0, 0, 1, 1, 0, 0, 0, 0], [1] + [0] * 7 + [1, 0]], bool
)
ROWS = {
    "token_ids": tf.constant(IDS),
    "segment_ids": tf.constant(SEGMENTS),
    "padding_mask": tf.constant((IDS > 0).astype("int32")),
}
STARTS, ENDS = np.array([4, 0, 8], "int32"), np.array([6, 0, 8], "int32")
IMPOSSIBLE = np.array([0, 1, 0])
GOLD = {**ROWS, "start_positions": tf.constant(STARTS)}
TARGETS = {
    "start_logits": tf.constant(STARTS),
    "end_logits": tf.constant(ENDS),
    "unanswerable_logits": tf.constant(IMPOSSIBLE),
}


def filled(model):
    """The model with weights in which a swap or a transpose shows, and positions differ."""
    rng = np.random.default_rng(0)
    for weight in model.weights:
        mean = 1 if path_of(weight).endswith("gamma") else 0
        weight.assign(rng.normal(mean, 0.3, tuple(weight.shape)).astype("float32"))
    return model


def log_softmax(logits):
    """Without the logarithm of a probability that is 0, where -1e30 stands."""
    top = logits.max()
    return logits - top - np.log(np.exp(logits - top).sum())


def predictor_and_values(dropout=0.0, **overrides):
    """A model whose head has numbers that show, and those, float64, by their paths."""
    predictor = filled(build_answerable_span_predictor(build_albert("tiny", **overrides), dropout))
    weights = weights_in(predictor.get_layer("answerable_span_predictor"))
    return predictor, {name: weight.numpy().astype("f8") for name, weight in weights.items()}


def hidden_of(model):
    outputs = encoder_of(model)({name: ROWS[name] for name in ROWS})
    return outputs["sequence_output"].numpy().astype("f8")


def start_logits_of(hidden, w):
    logits = hidden @ w["start_score/kernel"][:, 0] + w["start_score/bias"]
    return np.where(ALLOWED, logits, -1e30)


def end_logits_of(row, start, allowed, w):
    """Of one row `(S, H)`, position by position, for one start."""
    logits = np.full(len(row), -1e30)
    for position in np.flatnonzero(allowed):
        both = np.concatenate([row[position], row[start]])
        features = np.tanh(both @ w["end_dense/kernel"] + w["end_dense/bias"])
        features = layer_norm(features, w["LayerNorm/gamma"], w["LayerNorm/beta"])
        logits[position] = (features @ w["end_score/kernel"] + w["end_score/bias"])[0]
    return logits


def unanswerable_logits_of(hidden, starts, w):
    logits = []
    for row, start_logits in zip(hidden, starts, strict=True):
        expected_start = sum(p * h for p, h in zip(softmax(start_logits), row, strict=True))
        features = np.concatenate([expected_start, row[0]]) @ w["answer_dense/kernel"]
        features = np.tanh(features + w["answer_dense/bias"])
        logits.append((features @ w["answer_score/kernel"])[0])
    return np.array(logits)


def numpy_training_outputs(hidden, w):
    starts = start_logits_of(hidden, w)
    ends = [end_logits_of(hidden[b], STARTS[b], ALLOWED[b], w) for b in range(len(hidden))]
    return {
        "start_logits": starts,
        "end_logits": np.array(ends),
        "unanswerable_logits": unanswerable_logits_of(hidden, starts, w),
    }


def numpy_losses(hidden, w):
    """Start, end and answerability, each the mean over the rows."""
    out = numpy_training_outputs(hidden, w)
    start, end = (
        -np.mean([log_softmax(logits)[gold] for logits, gold in zip(out[name], golds, strict=True)])
        for name, golds in (("start_logits", STARTS), ("end_logits", ENDS))
    )
    p = 1 / (1 + np.exp(-out["unanswerable_logits"]))
    return start, end, -np.mean(np.where(IMPOSSIBLE, np.log(p), np.log(1 - p)))


# ---- where an answer may be ----


def test_an_answer_is_in_the_passage_or_at_cls():
    np.testing.assert_array_equal(answer_mask(ROWS["segment_ids"], ROWS["padding_mask"]), ALLOWED)


def test_a_row_without_a_passage_has_no_place_but_cls():
    segments, mask = tf.constant([[0, 0, 0, 1, 0, 0]]), tf.constant([[1, 1, 1, 1, 0, 0]])
    assert answer_mask(segments, mask).numpy().tolist() == [[True] + [False] * 5]


# ---- the two forms ----


def test_the_training_form_is_the_arithmetic_of_the_original():
    predictor, values = predictor_and_values()
    model = with_gold_starts(predictor)
    outputs = model(GOLD)
    expected = numpy_training_outputs(hidden_of(predictor), values)
    assert outputs.keys() == expected.keys()
    for name, value in expected.items():
        assert outputs[name].dtype == tf.float32 and outputs[name].shape == value.shape
        np.testing.assert_allclose(outputs[name], value, rtol=1e-5, atol=2e-5, err_msg=name)


def test_the_prediction_is_what_a_search_of_all_pairs_finds():
    predictor, w = predictor_and_values()
    outputs = {name: value.numpy() for name, value in predictor(ROWS).items()}
    hidden = hidden_of(predictor)
    starts = start_logits_of(hidden, w)
    for row in range(len(IDS)):
        log_probs = log_softmax(starts[row])
        found = range(min(BEAM, ALLOWED[row].sum()))
        best = np.argsort(-log_probs, kind="stable")
        np.testing.assert_array_equal(outputs["start_positions"][row, found], best[found])
        np.testing.assert_allclose(
            outputs["start_log_probs"][row, found], log_probs[best[found]], atol=2e-5
        )
        for place in found:
            ends = log_softmax(end_logits_of(hidden[row], best[place], ALLOWED[row], w))
            best_ends = np.argsort(-ends, kind="stable")
            np.testing.assert_array_equal(
                outputs["end_positions"][row, place, found], best_ends[found]
            )
            np.testing.assert_allclose(
                outputs["end_log_probs"][row, place, found], ends[best_ends[found]], atol=2e-5
            )
        # What the mask leaves out comes last, and shows.
        assert (outputs["start_log_probs"][row, len(found) :] < -1e29).all()
        assert (outputs["end_log_probs"][row, :, len(found) :] < -1e29).all()
    np.testing.assert_allclose(
        outputs["unanswerable_logits"], unanswerable_logits_of(hidden, starts, w), atol=2e-5
    )


def test_both_forms_say_the_same_of_a_start():
    predictor, _ = predictor_and_values()
    best = predictor(ROWS)
    gold = with_gold_starts(predictor)({**ROWS, "start_positions": best["start_positions"][:, 0]})
    log_probs = tf.nn.log_softmax(gold["end_logits"])
    np.testing.assert_allclose(
        tf.gather(log_probs, best["end_positions"][:, 0, :2], batch_dims=1),
        best["end_log_probs"][:, 0, :2],
        atol=1e-5,
    )
    np.testing.assert_allclose(
        gold["unanswerable_logits"], best["unanswerable_logits"], rtol=0, atol=1e-6
    )


def test_the_end_depends_on_the_start_and_nothing_else_does():
    model = with_gold_starts(predictor_and_values()[0])
    one, other = (model({**ROWS, "start_positions": tf.constant(s)}) for s in ([3] * 3, [8] * 3))
    change = np.where(ALLOWED, np.abs(one["end_logits"] - other["end_logits"]), 0).max(axis=1)
    assert (change > 1e-3).all()
    for name in ("start_logits", "unanswerable_logits"):
        np.testing.assert_array_equal(one[name], other[name])


def test_a_batch_of_one_row_is_that_row():
    predictor, _ = predictor_and_values()
    for model, batch in ((predictor, ROWS), (with_gold_starts(predictor), GOLD)):
        whole = model(batch)
        alone = model({name: value[1:2] for name, value in batch.items()})
        for name, value in whole.items():
            assert alone[name].shape == (1, *value.shape[1:])
            if name.endswith("positions"):  # of equal scores, where the mask left nothing
                found = alone[name.replace("positions", "log_probs")] > -1e29
                np.testing.assert_array_equal(alone[name][found], value[1:2][found])
            else:
                np.testing.assert_allclose(alone[name], value[1:2], rtol=1e-5, atol=1e-5)


def test_padding_changes_nothing():
    predictor, _ = predictor_and_values()
    longer = {name: tf.pad(value, [[0, 0], [0, 6]]) for name, value in ROWS.items()}
    for name, value in predictor(ROWS).items():
        if name.endswith("log_probs"):
            found = value > -1e29
            np.testing.assert_allclose(predictor(longer)[name][found], value[found], atol=1e-5)


def test_dropout_is_of_answerability_alone_and_drawn_while_training_only():
    model = with_gold_starts(predictor_and_values(dropout=0.5)[0])
    plain, drawn = model(GOLD), model(GOLD, training=True)
    assert np.abs(plain["unanswerable_logits"] - drawn["unanswerable_logits"]).max() > 1e-3
    np.testing.assert_array_equal(model(GOLD)["unanswerable_logits"], plain["unanswerable_logits"])
    for name in ("start_logits", "end_logits"):
        np.testing.assert_allclose(plain[name], drawn[name], rtol=1e-4, atol=1e-4)


# ---- shapes, types, files ----


def head_inputs(rng):
    hidden = rng.normal(size=(*IDS.shape, 8)).astype("float32")
    return [hidden, ROWS["segment_ids"], ROWS["padding_mask"], tf.constant(STARTS)]


TRAINING = Row(AnswerableSpanHead, {"dropout": 0.2}, head_inputs, 11, float32_outputs=True)


@pytest.mark.parametrize(
    "check",
    [
        check_config_survives_json,
        check_build_makes_all_weights,
        check_symbolic_and_eager_shapes_agree,
        check_xla_gives_the_eager_values,
        check_bfloat16_keeps_normalisation_and_softmax_in_float32,
    ],
)
def test_the_layer_keeps_the_contract_of_layers(check):
    check(TRAINING)


def test_the_layer_reloads(tmp_path):
    check_a_saved_model_reloads(TRAINING, tmp_path)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_both_forms_reload_and_survive_json(tmp_path, policy):
    tf.keras.mixed_precision.set_global_policy(policy)
    try:
        predictor, _ = predictor_and_values(hidden_dropout_prob=0.1)
        training = with_gold_starts(predictor)
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    for model, batch in ((predictor, ROWS), (training, GOLD)):
        model.save(tmp_path / "model.keras")
        copy = tf.keras.models.model_from_json(json.dumps(json.loads(model.to_json())))
        copy.set_weights(model.get_weights())
        for again in (tf.keras.models.load_model(tmp_path / "model.keras"), copy):
            assert config_of(again) == config_of(predictor)
            for name, value in model(batch).items():
                expected = tf.int32 if name.endswith("positions") else tf.float32
                assert value.dtype == expected and again.output[name].dtype == expected.name
                np.testing.assert_array_equal(again(batch)[name], value, err_msg=name)
            # What was read has the other form, too.
            np.testing.assert_array_equal(
                with_gold_starts(again)(GOLD)["end_logits"], training(GOLD)["end_logits"]
            )


def test_a_prediction_compiles_to_static_shapes():
    predictor, _ = predictor_and_values()
    signature = {name: tf.TensorSpec(value.shape, tf.int32) for name, value in ROWS.items()}
    compiled = tf.function(predictor, jit_compile=True, input_signature=[signature])
    traced = compiled.get_concrete_function().structured_outputs
    shapes = {name: tuple(value.shape) for name, value in traced.items()}
    assert shapes == {
        "start_positions": (3, BEAM),
        "start_log_probs": (3, BEAM),
        "end_positions": (3, BEAM, BEAM),
        "end_log_probs": (3, BEAM, BEAM),
        "unanswerable_logits": (3,),
    }
    for name, value in predictor(ROWS).items():
        if not name.endswith("positions"):
            np.testing.assert_allclose(compiled(ROWS)[name], value, rtol=1e-4, atol=1e-5)


# ---- the loss ----


def evaluated(model, inputs, targets, **arguments):
    model.compile(**span_losses(model), **arguments)
    batches = tf.data.Dataset.from_tensors((inputs, targets))
    return model.evaluate(batches, verbose=0, return_dict=True)


def test_the_loss_is_half_of_each_cross_entropy():
    predictor, values = predictor_and_values()
    start, end, answerable = numpy_losses(hidden_of(predictor), values)
    logs = evaluated(with_gold_starts(predictor), GOLD, TARGETS)
    assert logs["start_logits_loss"] == pytest.approx(start, rel=1e-5)
    assert logs["end_logits_loss"] == pytest.approx(end, rel=1e-5)
    assert logs["unanswerable_logits_loss"] == pytest.approx(answerable, rel=1e-5)
    assert logs["loss"] == pytest.approx(0.5 * (start + end) + 0.5 * answerable, rel=1e-5)


def test_the_loss_of_squad_1_is_the_mean_of_two():
    model = build_span_predictor(build_albert("tiny"))
    filled(model)
    outputs = {name: value.numpy().astype("f8") for name, value in model(ROWS).items()}
    expected = [
        -np.mean([log_softmax(row)[gold] for row, gold in zip(outputs[name], golds, strict=True)])
        for name, golds in (("start_logits", STARTS), ("end_logits", ENDS))
    ]
    targets = {name: TARGETS[name] for name in ("start_logits", "end_logits")}
    assert evaluated(model, ROWS, targets)["loss"] == pytest.approx(np.mean(expected), rel=1e-5)


def test_a_row_without_weight_does_not_count():
    model = with_gold_starts(predictor_and_values()[0])
    first_two = evaluated(model, *({n: v[:2] for n, v in part.items()} for part in (GOLD, TARGETS)))
    batches = tf.data.Dataset.from_tensors(
        (GOLD, TARGETS, dict.fromkeys(TARGETS, tf.constant([1.5, 1.5, 0.0])))
    )
    weighted = model.evaluate(batches, verbose=0, return_dict=True)
    assert weighted["loss"] == pytest.approx(first_two["loss"], rel=1e-4)


def gradients_of(model):
    losses = span_losses(model)
    with tf.GradientTape() as tape:
        outputs = model(GOLD)
        total = tf.add_n(
            [
                losses["loss_weights"][name] * tf.reduce_mean(loss(TARGETS[name], outputs[name]))
                for name, loss in losses["loss"].items()
            ]
        )
    return tape.gradient(total, model.trainable_variables)


def test_the_gradient_is_the_slope_of_the_loss_in_numpy():
    predictor, values = predictor_and_values()
    hidden, model = hidden_of(predictor), with_gold_starts(predictor)
    by_variable = dict(
        zip((id(v) for v in model.trainable_variables), gradients_of(model), strict=True)
    )
    rng = np.random.default_rng(0)
    weights = weights_in(predictor.get_layer("answerable_span_predictor"))
    for name, weight in weights.items():
        direction = rng.normal(size=weight.shape)
        ends = []
        for step in (1e-5, -1e-5):
            moved = {**values, name: values[name] + step * direction}
            start, end, answerable = numpy_losses(hidden, moved)
            ends.append(0.5 * (start + end + answerable))
        slope = (ends[0] - ends[1]) / 2e-5
        gradient = np.sum(by_variable[id(weight)].numpy() * direction)
        assert gradient == pytest.approx(slope, rel=2e-3, abs=2e-5), name


def test_the_gradient_reaches_every_weight():
    model = with_gold_starts(predictor_and_values()[0])
    gradients = [tf.convert_to_tensor(gradient) for gradient in gradients_of(model)]
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        path = path_of(variable)
        assert np.isfinite(gradient).all(), path
        # A softmax does not see what is added to all of its logits, or to all of a query's scores.
        invisible = ("key/bias", "start_score/bias", "end_score/bias", "predictor/LayerNorm/beta")
        if not path.endswith(invisible):
            assert np.abs(gradient).max() > 1e-5, path


# ---- it learns ----


def toy_examples(seed, number):
    """An answer is the pieces 9 and 8; half of the passages have none."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(10, 20, (number, 12)).astype("int32")
    ids[:, 0], ids[:, 2], ids[:, 11] = 2, 3, 3  # [CLS] question [SEP] eight pieces [SEP]
    impossible = rng.integers(0, 2, number)
    starts = np.where(impossible, 0, rng.integers(3, 10, number)).astype("int32")
    answerable = np.flatnonzero(starts)
    ids[answerable, starts[answerable]] = 9
    ids[answerable, starts[answerable] + 1] = 8
    segments = np.tile((np.arange(12) > 2).astype("int32"), (number, 1))
    inputs = {"token_ids": ids, "segment_ids": segments, "padding_mask": np.ones_like(ids)}
    return inputs, starts, np.where(impossible, 0, starts + 1), impossible


def test_fit_learns_where_the_answer_is_and_whether_there_is_one():
    tf.keras.utils.set_random_seed(0)
    predictor = build_answerable_span_predictor(build_albert("tiny", vocab_size=20))
    model = with_gold_starts(predictor)
    model.compile(tf.keras.optimizers.Adam(5e-3), **span_losses(model))
    inputs, starts, ends, impossible = toy_examples(0, 1600)
    targets = {"start_logits": starts, "end_logits": ends, "unanswerable_logits": impossible}
    batches = tf.data.Dataset.from_tensor_slices(({**inputs, "start_positions": starts}, targets))
    logs = model.fit(batches.batch(32), epochs=3, shuffle=False, verbose=0).history
    assert logs["loss"][-1] < 0.5 * logs["loss"][0]
    # By the other form, on examples that it has not seen; chance is 0.5 and 0.1.
    inputs, starts, ends, impossible = toy_examples(1, 200)
    outputs = {name: value.numpy() for name, value in predictor(inputs).items()}
    assert ((outputs["unanswerable_logits"] > 0) == impossible).mean() > 0.8
    assert (outputs["start_positions"][:, 0] == starts).mean() > 0.9
    assert (outputs["end_positions"][:, 0, 0] == ends).mean() > 0.9


# ---- what is refused ----


@pytest.mark.parametrize(
    "call,message",
    [
        (
            lambda: build_answerable_span_predictor(build_albert("tiny"), 1.0),
            "`dropout` must be at least 0 and below 1. Received: 1.0",
        ),
        (
            lambda: with_gold_starts(build_span_predictor(build_albert("tiny"))),
            "Gold starts are for an answerable span predictor. Received: .*span_predictor",
        ),
        (
            lambda: span_losses(build_classifier(build_albert("tiny"), 2)),
            "trains by its `start_logits`. Received: a model with the outputs logits",
        ),
        (
            lambda: span_losses(build_answerable_span_predictor(build_albert("tiny"))),
            "outputs .*end_positions.* Use one of build_span_predictor or with_gold_starts",
        ),
    ],
)
def test_what_makes_no_model_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_model_keeps_its_numbers_in_another_shape():
    predictor, _ = predictor_and_values(dropout=0.2)
    for new in (resize_vocabulary(predictor, 110), with_sharing(predictor, "none")):
        assert new.get_layer("answerable_span_predictor").dropout == 0.2
        for name, value in predictor(ROWS).items():
            if not name.endswith("positions"):
                np.testing.assert_allclose(new(ROWS)[name], value, rtol=1e-5, atol=1e-5)
