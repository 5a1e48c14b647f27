"""keras-hub's presets: read to the same numbers."""

import json
import re
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import tensorflow as tf

from albert_keras.checkpoints.filling import Fit
from albert_keras.checkpoints.keras_hub import is_keras_hub, read_keras_hub
from albert_keras.model import config_of
from tests import numpy_albert

pytestmark = pytest.mark.both_kerases

GOLDEN = Path(__file__).parent / "goldens" / "keras_hub_tiny"


def test_a_preset_gives_keras_hubs_numbers():
    (model, _), expected = read_keras_hub(GOLDEN), np.load(GOLDEN / "expected.npz")
    inputs = ("token_ids", "segment_ids", "padding_mask")
    got = model({name: tf.constant(expected[name]) for name in inputs})
    np.testing.assert_allclose(got["pooled_output"], expected["pooled_output"], atol=1e-5)
    tokens = expected["padding_mask"] == 1  # their mask differs from ours in what padding attends
    np.testing.assert_allclose(
        got["sequence_output"].numpy()[tokens], expected["sequence_output"][tokens], atol=1e-5
    )


def test_groups_and_inner_layers_are_a_pattern():
    config = config_of(read_keras_hub(GOLDEN)[0])
    assert config.num_hidden_layers == 8  # 4 times an inner group of 2
    assert config.sharing_pattern.attention == (0, 1, 0, 1, 2, 3, 2, 3)
    assert (config.hidden_act, config.layer_norm_eps) == ("gelu_tanh", 1e-12)


def write_square(folder, projection):
    """A preset with E = H = 6, by hand under keras-hub's names, and its weights.

    Their projection is there all the same: `projection`, a kernel and a bias.
    """
    rng = np.random.default_rng(0)
    layer = "layers/transformer_encoder"
    shapes = {
        "layers/reversible_embedding": [(20, 6)],
        "layers/position_embedding": [(9, 6)],
        "layers/embedding": [(2, 6)],
        "layers/layer_normalization": [(6,), (6,)],
        **{
            f"{layer}/_self_attention_layer/{name}_dense": [(6, 2, 3), (2, 3)]
            for name in ("query", "key", "value")
        },
        f"{layer}/_self_attention_layer/output_dense": [(2, 3, 6), (6,)],
        f"{layer}/_self_attention_layer_norm": [(6,), (6,)],
        f"{layer}/_feedforward_intermediate_dense": [(6, 10), (10,)],
        f"{layer}/_feedforward_output_dense": [(10, 6), (6,)],
        f"{layer}/_feedforward_layer_norm": [(6,), (6,)],
        "layers/dense_1": [(6, 6), (6,)],
    }
    arrays = {
        f"{name}/vars/{number}": rng.normal(0, 0.3, shape).astype("float32")
        for name, of_layer in shapes.items()
        for number, shape in enumerate(of_layer)
    }
    arrays |= {f"layers/dense/vars/{number}": array for number, array in enumerate(projection)}
    folder.mkdir()
    with h5py.File(folder / "model.weights.h5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    config = {
        "vocabulary_size": 20,
        "embedding_dim": 6,
        "hidden_dim": 6,
        "num_heads": 2,
        "intermediate_dim": 10,
        "max_sequence_length": 9,
        "num_segments": 2,
        "num_layers": 3,
        "num_groups": 1,
        "num_inner_repetitions": 1,
        "dropout": 0.0,
    }
    fields = {"class_name": "AlbertBackbone", "config": config}
    (folder / "config.json").write_text(json.dumps(fields))
    return arrays


IDS, SEGMENTS = np.array([[2, 17, 11, 3]]), np.array([[0, 0, 1, 1]])


def embedded(arrays):
    words, positions, types, gamma, beta = (
        arrays[f"layers/{name}"]
        for name in (
            "reversible_embedding/vars/0",
            "position_embedding/vars/0",
            "embedding/vars/0",
            "layer_normalization/vars/0",
            "layer_normalization/vars/1",
        )
    )
    return numpy_albert.layer_norm(words[IDS] + positions[:4] + types[SEGMENTS], gamma, beta)


def test_an_identity_between_equal_widths_is_no_projection(tmp_path):
    arrays = write_square(tmp_path / "x", (np.eye(6), np.zeros(6)))
    model, fit = read_keras_hub(tmp_path / "x")
    assert not config_of(model).always_project and fit == Fit({}, {})
    embeddings = model.get_layer("embeddings")
    assert embeddings.embedding_hidden_mapping_in is None
    hidden, _ = embeddings(tf.constant(IDS), tf.constant(SEGMENTS))
    np.testing.assert_allclose(hidden, embedded(arrays), atol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "bias"),
    [(np.eye(6)[:, [1, 2, 3, 4, 5, 0]], np.zeros(6)), (np.eye(6), np.arange(6) / 6)],
    ids=["permutation", "bias"],
)
def test_a_projection_between_equal_widths_that_does_something_is_read(tmp_path, kernel, bias):
    arrays = write_square(tmp_path / "x", (kernel, bias))
    model, _ = read_keras_hub(tmp_path / "x")
    assert config_of(model).always_project
    hidden, _ = model.get_layer("embeddings")(tf.constant(IDS), tf.constant(SEGMENTS))
    np.testing.assert_allclose(hidden, embedded(arrays) @ kernel + bias, atol=1e-5)


def test_half_a_projection_between_equal_widths_is_named(tmp_path):
    write_square(tmp_path / "x", (np.eye(6),))
    with pytest.raises(ValueError, match=r"missing: layers/dense/vars/1 \(6,\)"):
        read_keras_hub(tmp_path / "x")


def test_the_head_beside_the_backbone_is_not_read(tmp_path):
    """Theirs has LayerNorm's epsilon 1e-5, which no other ALBERT has."""
    shutil.copytree(GOLDEN, tmp_path / "x")
    with h5py.File(tmp_path / "x" / "task.weights.h5", "w") as file:
        file["layers/masked_lm_head/vars/0"] = np.ones(3)
    (tmp_path / "x" / "task.json").write_text(json.dumps({"class_name": "AlbertMaskedLM"}))
    model, fit = read_keras_hub(tmp_path / "x")
    assert model.name == "albert" and fit == Fit({}, {})
    for ours, theirs in zip(model.weights, read_keras_hub(GOLDEN)[0].weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_groups", 0),
        ("num_groups", 5),  # of 4 layers
        ("num_layers", "x"),
        ("num_layers", True),
        ("num_inner_repetitions", None),
        ("num_heads", [2]),
        ("hidden_dim", "24"),
        ("dropout", "x"),
        ("dropout", 2),
    ],
)
def test_a_config_that_makes_no_model_is_refused(tmp_path, name, value):
    shutil.copytree(GOLDEN, tmp_path / "x")
    path = tmp_path / "x" / "config.json"
    fields = json.loads(path.read_text())
    fields["config"][name] = value
    path.write_text(json.dumps(fields))
    with pytest.raises(ValueError, match=rf"config.json: .*Received: .*{re.escape(repr(value))}"):
        read_keras_hub(tmp_path / "x")


def test_only_their_albert_is_taken_for_one(tmp_path):
    assert is_keras_hub(GOLDEN)
    assert not is_keras_hub(GOLDEN.parent / "huggingface_tiny") and not is_keras_hub(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"class_name": "BertBackbone", "config": {}}))
    with pytest.raises(ValueError, match="must be of an AlbertBackbone. Received: 'BertBackbone'"):
        read_keras_hub(tmp_path)


def test_missing_broken_and_further_tensors_are_named(tmp_path):
    folder = tmp_path / "preset"
    shutil.copytree(GOLDEN, folder)
    with h5py.File(folder / "model.weights.h5", "a") as file:
        file["layers/dense_1/vars/1"][0] = np.nan
        del file["layers/embedding/vars/0"]
        file["layers/other/vars/0"] = np.zeros(3)
    with pytest.raises(ValueError) as error:
        read_keras_hub(folder)
    assert "missing: layers/embedding/vars/0 (2, 8)" in str(error.value)
    assert "unexpected: layers/other/vars/0 (3,)" in str(error.value)
    (folder / "model.weights.h5").write_bytes((GOLDEN / "model.weights.h5").read_bytes()[:5000])
    with pytest.raises(ValueError, match="model.weights.h5 is missing or damaged"):
        read_keras_hub(folder)
