"""keras-hub's presets: read to the same numbers."""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import tensorflow as tf

from albert_keras.checkpoints.keras_hub import is_keras_hub, read_keras_hub
from albert_keras.model import config_of

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
