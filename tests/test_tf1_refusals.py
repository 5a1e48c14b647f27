"""What Google's layout cannot hold is not written, and what is not Google's ALBERT is not read."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.checkpoints.tf1 import is_tf1, read_tf1, write_tf1
from albert_keras.model import build_albert
from tests.test_tf1 import edited, model_in, save, tiny

pytestmark = pytest.mark.both_kerases


def with_nan():
    model = tiny("encoder")
    model.get_layer("pooler").dense.bias.assign(np.full(24, np.nan))
    return model


def with_a_further_layer():
    encoder = tiny("encoder")
    mine = tf.keras.layers.Dense(2, name="mine", trainable=False)
    return tf.keras.Model(encoder.input, {"mine": mine(encoder.output["pooled_output"])})


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (with_nan, "finite numbers to be saved.*in bert/pooler/dense/bias"),
        (with_a_further_layer, "further weights, .*kernel"),
        (
            lambda: build_albert("tiny", embedding_size=24, always_project=True),
            "no projection where embedding_size is hidden_size",
        ),
        (lambda: build_albert("tiny", hidden_act="gelu_erf"), "GELU of the tanh form"),
        (
            lambda: build_albert("tiny", num_hidden_layers=22, sharing="none"),
            "into the group that it belongs to. Received: the model with 22 layers in 22 groups",
        ),
    ],
)
def test_what_their_layout_cannot_hold_is_not_written(tmp_path, model, reason):
    with pytest.raises(ValueError, match=reason):
        write_tf1(model(), tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(("layers", "groups"), [(22, 22), (23, 23), (44, 22)])
def test_groups_that_rounding_changes_in_their_graph_are_refused(tmp_path, layers, groups):
    write_tf1(tiny("encoder"), tmp_path / "x")
    path = tmp_path / "x" / "albert_config.json"
    fields = json.loads(path.read_text())
    fields |= {"num_hidden_layers": layers, "num_hidden_groups": groups}
    path.write_text(json.dumps(fields))
    with pytest.raises(ValueError, match=f"with {layers} layers in {groups} groups.*rounding"):
        model_in(tmp_path / "x")


BRIGHTMART = ("albert_config_tiny.json", "checkpoint", "vocab.txt", "albert_model.ckpt.meta")
TF_HUB = ("saved_model.pb", "tfhub_module.pb", "assets/30k-clean.model")


@pytest.mark.parametrize(
    ("files", "prefix", "name", "reason"),
    [
        (BRIGHTMART, "albert_model.ckpt", "bert/embeddings/word_embeddings_2", "of brightmart's"),
        (TF_HUB, "variables/variables", "module/bert/embeddings/word_embeddings", "of a TF-Hub"),
        (
            ("albert_config_base.json", "vocab.txt"),
            "albert_model.ckpt",
            "bert/embeddings/word_embeddings",
            "has its albert_config.json beside it. Received: .* with albert_config_base.json",
        ),
    ],
)
def test_folders_of_others_are_taken_for_googles_and_refused_with_the_reason(
    tmp_path, files, prefix, name, reason
):
    for file in (*files, prefix):
        (tmp_path / file).parent.mkdir(exist_ok=True)
    for file in files:
        (tmp_path / file).touch()
    save(tmp_path / prefix, {name: np.zeros((8, 4), "f4")})
    for source in (tmp_path, tmp_path / prefix):
        assert is_tf1(source)
        with pytest.raises(ValueError, match=reason):
            read_tf1(source)


def test_hugging_faces_folder_with_a_tf1_file_beside_it_is_theirs(tmp_path):
    assert not is_tf1(tmp_path)
    save(tmp_path / "model.ckpt-best", {"x": np.zeros(1, "f4")})
    assert is_tf1(tmp_path)
    (tmp_path / "config.json").touch()
    assert not is_tf1(tmp_path)


@pytest.mark.parametrize(
    "array, reason",
    [
        (np.full(24, 7, "i4"), "no floating-point numbers: bert/pooler/dense/bias, int32"),
        (np.full(24, 1 + 2j, "c8"), "no floating-point numbers: bert/pooler/dense/bias, complex64"),
        (np.full(24, 1e300), "NaN or infinite: bert/pooler/dense/bias"),
    ],
)
def test_numbers_that_are_no_float32_are_refused(tmp_path, array, reason):
    """Cast to float32, 1e300 is an infinity."""

    def change(tensors):
        tensors["bert/pooler/dense/bias"] = array

    with pytest.raises(ValueError, match=reason):
        read_tf1(edited(tmp_path, change))


def test_float64_that_fits_is_read(tmp_path):
    def change(tensors):
        tensors["bert/pooler/dense/bias"] = np.full(24, 0.25)

    model, _ = read_tf1(edited(tmp_path, change))
    np.testing.assert_array_equal(model.get_layer("pooler").dense.bias, np.full(24, 0.25))
