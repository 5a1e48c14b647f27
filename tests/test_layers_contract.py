"""Every public layer keeps the contract of tests/layer_contract.py."""

import importlib
import pkgutil

import pytest
import tensorflow as tf

from albert_keras import layers
from tests import layer_contract
from tests.layer_contract import Row

pytestmark = [
    pytest.mark.both_kerases,
    # Keras 3 on NumPy 2 says so whenever it saves a variable.
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword"),
]

BATCH, LENGTH, HIDDEN = 3, 5, 8


def hidden(rng, *shape):
    return rng.normal(size=shape or (BATCH, LENGTH, HIDDEN)).astype("float32")


def hidden_and_mask(rng):
    mask = [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]
    return hidden(rng), tf.constant(mask, tf.int32)


def ids_and_segments(rng):
    ids = rng.integers(0, 11, (BATCH, LENGTH)).astype("int32")
    return ids, tf.constant([[0, 0, 1, 1, 1]] * BATCH)


def masked_lm_inputs(rng):
    positions = tf.constant([[1, 2], [0, 2], [4, 1]])
    return hidden(rng), positions, hidden(rng, 11, 4)


ROWS = [
    Row(layers.Linear, {"units": 4, "activation": "relu"}, lambda rng: [hidden(rng)], 2),
    Row(layers.LayerNorm, {"epsilon": 1e-6}, lambda rng: [hidden(rng)], 2),
    Row(
        layers.FactorizedEmbedding,
        {
            "vocabulary_size": 11,
            "embedding_size": 4,
            "hidden_size": HIDDEN,
            "max_positions": 7,
            "num_segments": 2,
        },
        ids_and_segments,
        7,
    ),
    Row(layers.SelfAttention, {"num_heads": 2}, hidden_and_mask, 10),
    Row(
        layers.FeedForward,
        {"intermediate_size": 12, "activation": "gelu_erf"},
        lambda rng: [hidden(rng)],
        6,
    ),
    Row(
        layers.SharedTransformerStack,
        {
            "num_layers": 3,
            "num_heads": 2,
            "intermediate_size": 12,
            "attention_pattern": (0, 1, 1),
            "ffn_pattern": (0, 0, 1),
        },
        hidden_and_mask,
        2 * 10 + 2 * 6,
    ),
    Row(layers.Pooler, {}, lambda rng: [hidden(rng)], 2),
    Row(
        layers.NgramMaskedLM,
        {"vocabulary_size": 11, "embedding_size": 4},
        masked_lm_inputs,
        5,
        constant_inputs=1,
        float32_outputs=True,
    ),
    Row(layers.SOPHead, {}, lambda rng: [hidden(rng, BATCH, HIDDEN)], 2, float32_outputs=True),
]
every_layer = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.layer.__name__)


def test_every_public_layer_has_a_row():
    public = {getattr(layers, name) for name in layers.__all__}
    # What is in a module but not in __all__ would escape the contract.
    for module in pkgutil.iter_modules(layers.__path__, f"{layers.__name__}."):
        public |= {
            value
            for name, value in vars(importlib.import_module(module.name)).items()
            if not name.startswith("_")
            and isinstance(value, type)
            and issubclass(value, tf.keras.layers.Layer)
        }
    assert {value for value in public if isinstance(value, type)} == {row.layer for row in ROWS}


@every_layer
def test_config_survives_json(row):
    layer_contract.check_config_survives_json(row)


@every_layer
def test_build_makes_all_weights(row):
    layer_contract.check_build_makes_all_weights(row)


@every_layer
def test_symbolic_and_eager_shapes_agree(row):
    layer_contract.check_symbolic_and_eager_shapes_agree(row)


@every_layer
def test_a_compiled_step_moves_every_weight(row):
    layer_contract.check_a_compiled_step_moves_every_weight(row)


@every_layer
def test_xla_gives_the_eager_values(row):
    layer_contract.check_xla_gives_the_eager_values(row)


@every_layer
def test_bfloat16_keeps_normalisation_and_softmax_in_float32(row):
    layer_contract.check_bfloat16_keeps_normalisation_and_softmax_in_float32(row)


@every_layer
def test_a_saved_model_reloads(row, tmp_path):
    layer_contract.check_a_saved_model_reloads(row, tmp_path)
