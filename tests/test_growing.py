"""Larger models from smaller ones: what stays the same, what begins as what, what is refused."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.checkpoints.probe import PARAGRAPHS
from albert_keras.config import SharingPattern
from albert_keras.growing import grown, growth
from albert_keras.model import build_albert, build_pretrainer, config_of
from albert_keras.reshaping import resize_positions, resize_vocabulary
from albert_keras.task_models import build_classifier
from tests.small_tokenizer import small_tokenizer
from tests.test_reshaping import assert_equal_outputs, build, call, words_of

pytestmark = pytest.mark.both_kerases

# Of values around 1, through three layers: other sums of float32.
TOLERANCE = 3e-5


def larger(model, **fields):
    return dataclasses.replace(config_of(model), **fields)


@pytest.mark.parametrize("size", [16, 24, 32])  # H is 24, so with and without a projection
@pytest.mark.parametrize("kind", ["encoder", "pretrainer", "classifier"])
def test_a_multiple_of_the_embedding_size_leaves_every_output(kind, size):
    model = build(kind, sharing="attention")
    config = larger(model, embedding_size=size, always_project=True)
    wider = grown(model, config)
    assert config_of(wider) == config
    assert_equal_outputs(wider, model, TOLERANCE)


def test_any_other_embedding_size_leaves_those_of_the_encoder():
    model = build("pretrainer")
    wider = grown(model, larger(model, embedding_size=11))
    expected, outputs = call(model), call(wider)
    np.testing.assert_allclose(outputs["sop_logits"], expected["sop_logits"], atol=TOLERANCE)
    # The head by hand: a column's values are those of column i mod 8.
    head, old = wider.get_layer("masked_lm"), model.get_layer("masked_lm")
    columns = [*range(8), 0, 1, 2]
    np.testing.assert_array_equal(head.dense.kernel, old.dense.kernel.numpy()[:, columns])
    np.testing.assert_array_equal(head.layer_norm.gamma[8:], [0, 0, 0])
    assert 0.01 < np.abs(outputs["mlm_logits"] - expected["mlm_logits"]).max() < 1


def test_a_model_without_a_projection_gets_one_that_does_nothing():
    model = build(embedding_size=24)
    assert model.get_layer("embeddings").embedding_hidden_mapping_in is None
    wider = grown(model, larger(model, embedding_size=40))
    assert_equal_outputs(wider, model, TOLERANCE)
    assert_equal_outputs(grown(model, larger(model, always_project=True)), model, TOLERANCE)


def test_new_columns_learn_at_once_and_each_something_else():
    """What preserves a function must not be a dead end."""
    model = build()
    wider = grown(model, larger(model, embedding_size=12), seed=3)
    table = wider.get_layer("embeddings").word_embeddings
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(call(wider)["sequence_output"][:, :, 0])
    gradient = tape.gradient(loss, table).numpy()[17, 8:]
    scale = np.abs(gradient).max()
    assert scale > 1e-4
    assert all(np.abs(a - b) > 1e-3 * scale for a, b in zip(gradient, gradient[1:], strict=False))
    again = grown(model, larger(model, embedding_size=12), seed=3)
    for one, other in zip(wider.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_pieces_and_positions_grow_as_they_do_alone():
    model = build("pretrainer")
    config = larger(model, vocab_size=110, max_position_embeddings=80)
    with pytest.warns(UserWarning, match="positions 64 to 79 repeat"):
        both = grown(model, config, seed=5)
        expected = resize_vocabulary(resize_positions(model, 80), 110, seed=5)
    assert config_of(both) == config
    for one, other in zip(both.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", ["encoder", "pretrainer"])
def test_a_shared_layer_is_used_more_often(kind):
    model = build(kind)
    deeper = grown(model, larger(model, num_hidden_layers=5))
    expected = build(kind, num_hidden_layers=5)  # the weights have the same shapes and values
    assert_equal_outputs(deeper, expected)


@pytest.mark.parametrize(
    "layers,new_layers,expected",
    [
        (1, 3, [0, 0, 0]),
        (3, 6, [0, 0, 1, 1, 2, 2]),
        (2, 5, [0, 0, 0, 1, 1]),
        (3, 4, [0, 0, 1, 2]),
    ],
)
def test_unshared_layers_begin_as_the_old_ones_in_their_order(layers, new_layers, expected):
    model = build(num_hidden_layers=layers, sharing="none")
    config = larger(model, num_hidden_layers=new_layers, sharing="none")
    new = grown(model, config).get_layer("encoder")
    old = model.get_layer("encoder")
    assert len(new.attention_blocks) == new_layers
    for index, source in enumerate(expected):
        for half in ("attention_blocks", "ffn_blocks"):
            blocks, sources = getattr(new, half), getattr(old, half)
            for one, other in zip(
                blocks[index].get_weights(), sources[source].get_weights(), strict=True
            ):
                np.testing.assert_array_equal(one, other)


def test_layers_that_come_to_share_a_block_take_the_first_ones_weights():
    model = build(num_hidden_layers=2, sharing="none")
    pattern = SharingPattern((0, 0, 1, 0), (0, 0, 1, 1))
    config = larger(model, num_hidden_layers=4, sharing=pattern)
    new, old = (m.get_layer("encoder") for m in (grown(model, config), model))
    np.testing.assert_array_equal(
        new.attention_blocks[0].query.kernel, old.attention_blocks[0].query.kernel
    )
    np.testing.assert_array_equal(
        new.attention_blocks[1].query.kernel, old.attention_blocks[1].query.kernel
    )
    assert growth(model, config) == [
        "num_hidden_layers 2 -> 4: they begin as layers 0, 0, 1, 1",
        "sharing none -> SharingPattern(attention=(0, 0, 1, 0), ffn=(0, 0, 1, 1))",
        "attention weights left out: layers 3 take those of an earlier one",
    ]


def test_a_shared_model_can_be_grown_into_an_unshared_one():
    model = build()
    unshared = grown(model, larger(model, num_hidden_layers=6, sharing="none"))
    assert_equal_outputs(unshared, grown(model, larger(model, num_hidden_layers=6)), TOLERANCE)


def test_everything_grows_at_once_and_settings_come_along():
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        encoder = build_albert("tiny", recompute=True, initializer_range=0.05)
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    model = build_pretrainer(encoder, max_predictions=2, pair_objective="nsp")
    config = larger(
        model,
        num_hidden_layers=6,
        embedding_size=16,
        vocab_size=120,
        hidden_dropout_prob=0.0,
        initializer_range=0.5,
    )
    new = grown(model, config)
    assert config_of(new) == config
    stack = new.get_layer("encoder")
    assert stack.recompute and stack.compute_dtype == "bfloat16"
    assert new.get_layer("sop").objective == "nsp"
    draw = words_of(new)[100:, :8] - words_of(model).mean(axis=0)
    assert 0.3 < draw.std() < 0.7  # the new range
    call(new)


def test_a_model_of_the_same_sizes_is_a_copy():
    model = build("pretrainer")
    copy = grown(model, config_of(model))
    assert_equal_outputs(copy, model)
    copy.get_layer("sop").dense.bias.assign([7.0, 7.0])
    assert model.get_layer("sop").dense.bias.numpy()[0] != 7
    assert growth(model, config_of(model)) == []


def test_what_grows_is_said():
    model = build("pretrainer")
    config = larger(model, num_hidden_layers=6, embedding_size=12, max_position_embeddings=96)
    assert growth(model, config) == [
        "embedding_size 8 -> 12: outputs of the encoder stay as they were, those of the head for "
        "masked words change a little",
        "num_hidden_layers 3 -> 6: the shared layer is used more often",
        "max_position_embeddings 64 -> 96: new positions repeat the old ones, and no training has "
        "seen them",
    ]


@pytest.mark.parametrize(
    "fields,message",
    [
        ({"hidden_size": 48}, "hidden_size 24 -> 48. Keep hidden_size=24"),
        ({"num_hidden_layers": 2}, "num_hidden_layers 3 -> 2. Keep num_hidden_layers=3"),
        (
            {"num_attention_heads": 4, "intermediate_size": 48, "hidden_act": "relu"},
            "heads 2 -> 4; intermediate_size 96 -> 48; hidden_act gelu_tanh -> relu. Keep",
        ),
        ({"embedding_size": 4, "vocab_size": 99}, "vocab_size 100 -> 99; embedding_size 8 -> 4"),
        ({"max_position_embeddings": 32, "type_vocab_size": 3}, "64 -> 32; type_vocab_size 2 -> 3"),
        ({"embedding_size": 24}, "Keep always_project=True"),
    ],
)
def test_what_cannot_grow_is_refused_by_name(fields, message):
    model = build()
    for function in (grown, growth):
        with pytest.raises(ValueError, match=f"A model grows in vocab_size.*{message}"):
            function(model, larger(model, **fields))


def test_other_models_are_refused():
    with pytest.raises(ValueError, match="output_all_layers=True"):
        model = build_albert("tiny", output_all_layers=True)
        grown(model, larger(model, num_hidden_layers=4))
    other = tf.keras.Sequential([tf.keras.layers.Flatten(name="f")])
    with pytest.raises(ValueError, match="Received: a model with the layers f"):
        grown(other, config_of(build_classifier(build_albert("tiny"), 2)))


def test_a_deeper_model_learns_sooner_than_from_random_weights(trained_on_the_paragraph):
    """The paper's warm start: 1 layer, then 3."""
    tokenizer, rng = small_tokenizer(), np.random.default_rng(1)
    ids = np.array([tokenizer.cls_id, *tokenizer.encode(PARAGRAPHS[0])[:126], tokenizer.sep_id])
    token_ids = np.tile(ids, (8, 1))
    positions = np.stack([rng.choice(np.arange(1, 127), 20, replace=False) for _ in range(8)])
    labels = np.take_along_axis(token_ids, positions, 1)
    np.put_along_axis(token_ids, positions, tokenizer.mask_id, 1)
    inputs = {"token_ids": token_ids, "masked_positions": positions}
    inputs |= {"segment_ids": 0 * token_ids, "padding_mask": 0 * token_ids + 1}
    inputs = {name: tf.constant(value, tf.int32) for name, value in inputs.items()}

    def loss_after_training(model, steps=12):
        optimizer = tf.keras.optimizers.Adam(0.003)

        @tf.function
        def step():
            with tf.GradientTape() as tape:
                logits = model(inputs, training=True)["mlm_logits"]
                loss = tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
                )
            variables = model.trainable_variables
            pairs = zip(tape.gradient(loss, variables), variables, strict=True)
            # The loss does not reach the pair head.
            optimizer.apply_gradients([pair for pair in pairs if pair[0] is not None])
            return loss

        return [float(step()) for _ in range(steps)][-1]

    config = larger(trained_on_the_paragraph, num_hidden_layers=3)
    tf.keras.utils.set_random_seed(0)
    from_random = loss_after_training(build_pretrainer(build_albert(config), max_predictions=20))
    # Measured: 3.1 and 5.0 nats; the shallow model has 1.4, and a guess by frequency 5.0.
    assert loss_after_training(grown(trained_on_the_paragraph, config)) < from_random - 1
