"""The models of tasks: what their heads compute, and that they train, save and reload."""

import functools
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.model import build_albert, build_pretrainer, config_of, encoder_of
from albert_keras.reshaping import (
    resize_positions,
    resize_vocabulary,
    with_settings,
    with_sharing,
)
from albert_keras.task_models import (
    build_classifier,
    build_multiple_choice,
    build_span_predictor,
)
from tests.layer_contract import fill_weights

pytestmark = [
    pytest.mark.both_kerases,
    # Keras 3 on NumPy 2 says so whenever it saves a variable.
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword"),
]

IDS = np.array([[2, 17, 45, 3, 99, 3], [2, 8, 3, 0, 0, 0], [2, 31, 3, 7, 7, 3]], "int32")


def inputs_of(ids):
    return {
        "token_ids": tf.constant(ids),
        "segment_ids": tf.constant(np.cumsum(ids == 3, axis=-1) % 2, tf.int32),
        "padding_mask": tf.constant((ids > 0).astype("int32")),
    }


ROWS = inputs_of(IDS)
# Two examples of three choices.
CHOICES = inputs_of(np.stack([IDS, IDS[::-1]]))
BUILDERS = {
    "classifier": functools.partial(build_classifier, num_labels=3),
    "span_predictor": build_span_predictor,
    "multiple_choice": build_multiple_choice,
}
every_kind = pytest.mark.parametrize("kind", BUILDERS)


def batch_for(kind):
    return CHOICES if kind == "multiple_choice" else ROWS


def filled_head(model, kind):
    """The head's kernel and bias, after they were given numbers that show."""
    head = model.get_layer(kind)
    fill_weights(head)
    return head.kernel.numpy(), head.bias.numpy()


def test_the_classifier_is_a_linear_map_of_the_pooled_output():
    encoder = build_albert("tiny")
    model = build_classifier(encoder, num_labels=3)
    kernel, bias = filled_head(model, "classifier")
    expected = encoder(ROWS)["pooled_output"] @ kernel + bias
    np.testing.assert_allclose(model(ROWS)["logits"], expected, atol=1e-5)


def test_the_span_predictor_is_a_linear_map_of_every_position():
    encoder = build_albert("tiny")
    model = build_span_predictor(encoder)
    kernel, bias = filled_head(model, "span_predictor")
    expected = encoder(ROWS)["sequence_output"] @ kernel + bias
    outputs = model(ROWS)
    assert set(outputs) == {"start_logits", "end_logits"}
    np.testing.assert_allclose(outputs["start_logits"], expected[..., 0], atol=1e-5)
    np.testing.assert_allclose(outputs["end_logits"], expected[..., 1], atol=1e-5)
    assert np.isfinite(outputs["start_logits"]).all() and np.abs(expected[1, 3:]).max() < 100


def test_a_choice_scores_as_a_row_of_its_own():
    encoder = build_albert("tiny")
    model = build_multiple_choice(encoder)
    kernel, bias = filled_head(model, "multiple_choice")
    for number in (3, 1):
        batch = {name: value[:, :number] for name, value in CHOICES.items()}
        logits = model(batch)["logits"]
        assert logits.shape == (2, number)
        for choice in range(number):
            rows = {name: value[:, choice] for name, value in batch.items()}
            expected = encoder(rows)["pooled_output"] @ kernel + bias
            np.testing.assert_allclose(logits[:, choice], expected[:, 0], atol=1e-5)


@every_kind
def test_dropout_is_drawn_while_training_only(kind):
    encoder = build_albert("tiny")
    for rate, differs in ((0.0, False), (0.5, True)):
        model = BUILDERS[kind](encoder, dropout=rate)
        filled_head(model, kind)
        for name, value in model(batch_for(kind)).items():
            change = np.abs(model(batch_for(kind), training=True)[name] - value).max()
            assert (change > 1e-3) == differs, (rate, name)


@every_kind
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_a_saved_task_model_reloads_and_survives_json(tmp_path, kind, policy):
    tf.keras.mixed_precision.set_global_policy(policy)
    try:
        model = BUILDERS[kind](build_albert("tiny", sharing="ffn", hidden_dropout_prob=0.1))
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    fill_weights(model)
    model.save(tmp_path / "model.keras")
    copy = tf.keras.models.model_from_json(json.dumps(json.loads(model.to_json())))
    copy.set_weights(model.get_weights())
    for again in (tf.keras.models.load_model(tmp_path / "model.keras"), copy):
        assert config_of(again) == config_of(model)
        for name, value in model(batch_for(kind)).items():
            assert value.dtype == tf.float32 and again.output[name].dtype == "float32"
            np.testing.assert_array_equal(again(batch_for(kind))[name], value)
        if kind != "span_predictor":
            # Whatever it was read from, a pretrainer can be built around its encoder.
            build_pretrainer(encoder_of(again))


# The classifier has its own, in test_finetuning_run.py.
@pytest.mark.parametrize("kind", ["span_predictor", "multiple_choice"])
def test_fit_lowers_the_loss_and_moves_the_encoder(kind):
    tf.keras.utils.set_random_seed(0)
    encoder = build_albert("tiny")
    model = BUILDERS[kind](encoder)
    before = encoder.get_layer("embeddings").word_embeddings.numpy()
    names = list(model.output)
    batch = batch_for(kind)
    labels = {name: np.arange(len(batch["token_ids"])) for name in names}
    loss = {name: tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True) for name in names}
    model.compile(tf.keras.optimizers.Adam(1e-2), loss=loss)
    losses = model.fit(batch, labels, epochs=8, verbose=0).history
    assert losses["loss"][-1] < losses["loss"][0]
    if len(names) > 1:
        assert {f"{name}_loss" for name in names} <= set(losses)
    assert np.abs(encoder.get_layer("embeddings").word_embeddings.numpy() - before).max() > 1e-3


def test_one_graph_serves_every_number_of_choices_also_in_xla():
    model = build_multiple_choice(build_albert("tiny"))
    compiled = tf.function(lambda batch: model(batch)["logits"], jit_compile=True)
    for batch in (CHOICES, {name: value[:1, :2, :4] for name, value in CHOICES.items()}):
        np.testing.assert_allclose(compiled(batch), model(batch)["logits"], atol=1e-5)


@every_kind
def test_a_task_model_keeps_its_numbers_in_another_shape(kind):
    model = BUILDERS[kind](build_albert("tiny"), dropout=0.2)
    fill_weights(model)
    reshaped = {
        "max_position_embeddings": (32, resize_positions(model, 32)),
        "vocab_size": (110, resize_vocabulary(model, 110)),
        "sharing": ("none", with_sharing(model, "none")),
        "hidden_dropout_prob": (0.1, with_settings(model, hidden_dropout_prob=0.1)),
    }
    for field, (value, new) in reshaped.items():
        assert getattr(config_of(new), field) == value
        assert new.get_layer(f"{kind}_dropout").rate == 0.2
        for name, expected in model(batch_for(kind)).items():
            # Unshared weights are multiplied in another order on some machines.
            np.testing.assert_allclose(new(batch_for(kind))[name], expected, rtol=0, atol=1e-6)


def test_a_head_on_the_pooled_output_is_refused_where_there_is_none():
    encoder = encoder_of(build_span_predictor(build_albert("tiny")))
    build_span_predictor(encoder)
    for build in (BUILDERS["classifier"], build_multiple_choice, build_pretrainer):
        with pytest.raises(ValueError, match="outputs sequence_output. .*span predictor has no po"):
            build(encoder)


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda: build_classifier(build_albert("tiny"), 0), "`num_labels` must be at least 1"),
        (lambda: build_multiple_choice(build_albert("tiny"), 1.0), "`dropout` must be at least 0"),
        (lambda: build_span_predictor(build_albert("tiny"), -0.1), "`dropout` must be at least 0"),
        (
            lambda: build_span_predictor(
                tf.keras.Sequential([tf.keras.layers.Flatten(name="flatten")])
            ),
            "Received: a model with the layers flatten",
        ),
    ],
)
def test_what_makes_no_model_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
