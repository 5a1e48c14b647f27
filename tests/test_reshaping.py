"""Other numbers of positions and pieces, other sharing and settings: what stays, what is new."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.config import SharingPattern
from albert_keras.model import build_albert, build_pretrainer, config_of, layers_of
from albert_keras.reshaping import (
    SETTINGS,
    resize_positions,
    resize_vocabulary,
    with_settings,
    with_sharing,
)
from albert_keras.task_models import build_classifier
from tests.layer_contract import fill_weights

pytestmark = pytest.mark.both_kerases

IDS = np.array([[2, 17, 45, 3, 99, 3], [2, 8, 3, 0, 0, 0]])
INPUTS = {
    "token_ids": tf.constant(IDS, tf.int32),
    "segment_ids": tf.constant([[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]]),
    "padding_mask": tf.constant((IDS > 0).astype("int32")),
    "masked_positions": tf.constant([[1, 2], [1, 0]]),
}
HEADS = {
    "encoder": lambda encoder: encoder,
    "pretrainer": lambda encoder: build_pretrainer(encoder, max_predictions=2, mask_id=7),
    "classifier": lambda encoder: build_classifier(encoder, num_labels=3, dropout=0.2),
}
# Every kind of model and every sharing once.
MODELS = pytest.mark.parametrize(
    "kind,sharing",
    [
        ("encoder", "all"),
        ("encoder", "attention"),
        ("classifier", "none"),
        ("pretrainer", "ffn"),
        ("pretrainer", SharingPattern((0, 1, 1), (0, 0, 1))),
    ],
)


def build(kind="encoder", **config):
    """A "tiny" model whose weights are all different, of P = 64 positions and V = 100 pieces."""
    model = HEADS[kind](build_albert("tiny", **config))
    fill_weights(model)
    return model


@pytest.fixture(scope="module")
def tiny():
    return build()


def call(model, inputs=INPUTS):
    return model({name: inputs[name] for name in model.input})


def assert_equal_outputs(model, expected, tolerance=0.0):
    assert set(model.output) == set(expected.output)
    pairs = zip(tf.nest.flatten(call(model)), tf.nest.flatten(call(expected)), strict=True)
    for value, other in pairs:
        np.testing.assert_allclose(value, other, rtol=0, atol=tolerance)


def positions_of(model):
    return model.get_layer("embeddings").position_embeddings.numpy()


def words_of(model):
    return model.get_layer("embeddings").word_embeddings.numpy()


@MODELS
def test_copied_positions_repeat_the_trained_ones_and_leave_their_outputs(kind, sharing):
    model = build(kind, sharing=sharing)
    with pytest.warns(UserWarning, match="positions 64 to 149 repeat the first ones"):
        longer = resize_positions(model, 150)
    np.testing.assert_array_equal(positions_of(longer), np.tile(positions_of(model), [3, 1])[:150])
    assert_equal_outputs(longer, model)
    assert config_of(longer).max_position_embeddings == 150
    assert config_of(longer).sharing == sharing
    assert config_of(model).max_position_embeddings == 64


def test_interpolated_positions_lie_between_the_trained_ones():
    model = build(max_position_embeddings=4)
    trained = positions_of(model)
    with pytest.warns(UserWarning, match="4 positions were stretched to 7. Rows of any length"):
        longer = resize_positions(model, 7, "interpolate")
    np.testing.assert_array_equal(positions_of(longer)[::2], trained)
    np.testing.assert_allclose(
        positions_of(longer)[1::2], (trained[:-1] + trained[1:]) / 2, atol=1e-7
    )
    # Row 2 of 6 lies at 2 * 3 / 5 = 1.2.
    with pytest.warns(UserWarning, match="score worse"):
        longer = resize_positions(model, 6, method="interpolate")
    np.testing.assert_allclose(
        positions_of(longer)[2], 0.8 * trained[1] + 0.2 * trained[2], atol=1e-7
    )
    np.testing.assert_array_equal(positions_of(longer)[[0, -1]], trained[[0, -1]])


def test_a_single_position_is_repeated_by_either_method():
    model = build(max_position_embeddings=1)
    for method in ("copy", "interpolate"):
        with pytest.warns(UserWarning, match="No training has seen"):
            longer = resize_positions(model, 3, method)
        np.testing.assert_array_equal(positions_of(longer), positions_of(model)[[0, 0, 0]])


@pytest.mark.parametrize("method", ["copy", "interpolate"])
@pytest.mark.parametrize("positions", [6, 64])
def test_fewer_positions_are_the_first_ones_and_no_more_than_these_can_be_asked_for(
    method, positions
):
    model = build("pretrainer")
    shorter = resize_positions(model, positions, method)  # a warning would be an error
    np.testing.assert_array_equal(positions_of(shorter), positions_of(model)[:positions])
    assert_equal_outputs(shorter, model)
    ids = tf.ones([1, positions + 1], tf.int32)
    inputs = {**dict.fromkeys(INPUTS, ids), "masked_positions": ids[:, :2]}
    with pytest.raises(ValueError, match=f"max_positions {positions}"):
        call(shorter, inputs)


def test_a_longer_model_takes_longer_rows(tiny):
    with pytest.warns(UserWarning, match="Rows of more than 64 pieces"):
        longer = resize_positions(tiny, 65)
    ids = tf.ones([1, 65], tf.int32)
    assert call(longer, dict.fromkeys(INPUTS, ids))["sequence_output"].shape == (1, 65, 24)


@MODELS
def test_a_grown_vocabulary_keeps_the_old_pieces_as_they_were(kind, sharing):
    model = build(kind, sharing=sharing)
    larger = resize_vocabulary(model, 130)
    assert words_of(larger).shape == (130, 8)
    np.testing.assert_array_equal(words_of(larger)[:100], words_of(model))
    assert config_of(larger).vocab_size == 130 and config_of(larger).sharing == sharing
    if kind == "pretrainer":
        logits = call(larger)["mlm_logits"]
        # Another shape of the same product may add in another order.
        np.testing.assert_allclose(logits[..., :100], call(model)["mlm_logits"], atol=1e-5)
        assert logits.shape == (2, 2, 130)
        np.testing.assert_array_equal(call(larger)["sop_logits"], call(model)["sop_logits"])
    else:
        assert_equal_outputs(larger, model)


def test_new_pieces_are_drawn_around_the_mean_of_the_old_ones():
    model = build("pretrainer", initializer_range=0.05)
    model.get_layer("embeddings").word_embeddings.assign_add(np.arange(100 * 8).reshape(100, 8))
    larger = resize_vocabulary(model, 4100)
    draw = words_of(larger)[100:] - words_of(model).astype("float64").mean(axis=0)
    # 4,000 draws a column: 5 standard errors of the mean, and of the deviation.
    np.testing.assert_allclose(draw.mean(axis=0), 0, atol=5 * 0.05 / 4000**0.5)
    np.testing.assert_allclose(draw.std(axis=0), 0.05, atol=5 * 0.05 / 8000**0.5)
    old, new = (m.get_layer("masked_lm").output_bias.numpy() for m in (model, larger))
    np.testing.assert_array_equal(new[:100], old)
    np.testing.assert_allclose(new[100:], old.astype("float64").mean(), atol=1e-6)


def test_new_pieces_follow_the_seed(tiny):
    first, again, other = (words_of(resize_vocabulary(tiny, 110, seed=s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first[100:] != other[100:]).all()


def test_a_vocabulary_of_the_same_size_is_a_copy():
    model = build("pretrainer")
    assert_equal_outputs(resize_vocabulary(model, 100), model)


@pytest.mark.parametrize(
    "sharing", ["none", "attention", 2, SharingPattern((1, 0, 0, 1), (0,) * 4)]
)
def test_an_unshared_model_comes_from_a_shared_one_and_goes_back(sharing):
    shared = build(num_hidden_layers=4, output_all_layers=True)
    unshared = with_sharing(shared, sharing)
    assert config_of(unshared).sharing == sharing
    again = with_sharing(unshared, "all")
    assert config_of(again) == config_of(shared)
    for model in (unshared, again):
        assert_equal_outputs(model, shared, tolerance=1e-6)


@pytest.mark.parametrize("kind", ["pretrainer", "classifier"])
def test_a_whole_model_is_shared_anew(kind):
    model = build(kind)
    unshared = with_sharing(model, "none")
    assert config_of(unshared).sharing == "none"
    assert_equal_outputs(unshared, model, tolerance=1e-6)


def test_layers_whose_weights_differ_cannot_come_to_share_them():
    encoder = build(num_hidden_layers=4, sharing=2)
    with pytest.raises(ValueError, match="layers 0 and 2 would share attention weights"):
        with_sharing(encoder, "all")
    with_sharing(encoder, SharingPattern((0, 0, 1, 1), (0, 0, 1, 2)))


@pytest.mark.parametrize("kind", ["encoder", "classifier"])
def test_layers_that_differ_can_take_the_weights_of_the_first(kind):
    model = build(kind, num_hidden_layers=4, sharing="none")
    attention, ffn = (0, 1, 1, 0), (0, 1, 2, 2)
    tied = with_sharing(model, (attention, ffn), differing="first")
    assert config_of(tied).sharing == SharingPattern(attention, ffn)
    # The same function, written out without sharing.
    expected = build(kind, num_hidden_layers=4, sharing="none")
    stack = expected.get_layer("encoder")
    for to, source in ((2, 1), (3, 0)):
        weights = stack.attention_blocks[source].get_weights()
        stack.attention_blocks[to].set_weights(weights)
    stack.ffn_blocks[3].set_weights(stack.ffn_blocks[2].get_weights())
    assert_equal_outputs(tied, expected, tolerance=1e-6)
    # And not the one before.
    with pytest.raises(AssertionError):
        assert_equal_outputs(tied, model, tolerance=1e-3)


@pytest.mark.parametrize("kind", ["pretrainer", "classifier"])
def test_other_settings_use_the_same_weights(kind):
    settings = {
        "num_attention_heads": 4,
        "hidden_act": "relu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.2,
        "layer_norm_eps": 0.1,
        "initializer_range": 0.3,
    }
    assert set(settings) == set(SETTINGS)
    model, expected = build(kind), build(kind, **settings)
    changed = with_settings(model, **settings)
    assert config_of(changed) == config_of(expected)
    assert_equal_outputs(changed, expected)
    assert config_of(with_settings(model)) == config_of(model)


RESHAPES = {
    "positions": lambda model: resize_positions(model, 32),
    "vocabulary": lambda model: resize_vocabulary(model, 110),
    "sharing": lambda model: with_sharing(model, "none"),
    "settings": lambda model: with_settings(model, hidden_act="relu"),
}


def test_settings_that_are_no_weights_come_along():
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        pretrainer, classifier = build("pretrainer"), build("classifier")
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    pretrainer.get_layer("encoder").trainable = False
    new = resize_vocabulary(pretrainer, 110)
    for layer in pretrainer.layers:
        again = new.get_layer(layer.name)
        if layer.weights:
            assert (again.compute_dtype, again.trainable) == (layer.compute_dtype, layer.trainable)
    head = new.get_layer("masked_lm")
    assert (head.max_predictions, head.mask_id) == (2, 7)
    assert new.name == pretrainer.name and set(new.input) == set(pretrainer.input)
    assert resize_positions(classifier, 32).get_layer("classifier_dropout").rate == 0.2


@pytest.mark.parametrize("reshape", RESHAPES.values(), ids=RESHAPES)
def test_the_old_model_and_the_new_one_share_no_weight(reshape, tiny):
    expected = tiny.get_weights()
    new = reshape(tiny)
    for weight in new.weights:
        weight.assign(tf.zeros_like(weight))
    for value, other in zip(tiny.get_weights(), expected, strict=True):
        np.testing.assert_array_equal(value, other)


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda model: resize_positions(model, 0), "`max_position_embeddings` must be .* Rec.*: 0"),
        (
            lambda model: resize_positions(model, 70, "tile"),
            "or interpolate. Received: 'tile'",
        ),
        (
            lambda model: resize_vocabulary(model, 99),
            "Rec.*: vocab_size 99, of a model with 100",
        ),
        (lambda model: resize_vocabulary(model, 1e5), "`vocab_size` must be a whole number"),
        (lambda model: with_sharing(model, "some"), "`sharing` must be one of"),
        (lambda model: with_sharing(model, "all", "last"), "refuse or first. Received: 'last'"),
        (lambda model: with_sharing(model, ((0, 1), (0, 1))), "each of the 3 layers"),
        (lambda model: with_settings(model, hidden_size=8), "stay. Received: hidden_size"),
        (lambda model: with_settings(model, hidden_act="gelu"), 'or "gelu_erf"'),
    ],
)
def test_what_makes_no_shape_is_refused(call, message, tiny):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # and before anything is said about the result
        with pytest.raises(ValueError, match=message):
            call(tiny)


def test_a_model_without_an_encoder_is_refused():
    other = tf.keras.Sequential([tf.keras.layers.Flatten(name="f")])
    for reshape in RESHAPES.values():
        with pytest.raises(ValueError, match="Received: a model with the layers f"):
            reshape(other)


@pytest.mark.parametrize("reshaped", ["settings", "positions", "sharing"])
def test_a_frozen_part_keeps_its_weights_where_they_are(reshaped):
    """Keras lists frozen weights after the others."""
    model = build_albert("tiny", sharing="none")
    fill_weights(model)
    layers_of(model)["encoder"].attention_blocks[0].trainable = False
    layers_of(model)["embeddings"].layer_norm.trainable = False
    new = {
        "settings": lambda: with_settings(model, hidden_dropout_prob=0.1),
        "positions": lambda: resize_positions(model, 32),
        "sharing": lambda: with_sharing(model, "none"),
    }[reshaped]()
    ids = tf.constant([[2, 17, 30, 45, 3]])
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
    np.testing.assert_array_equal(new(inputs)["sequence_output"], model(inputs)["sequence_output"])
