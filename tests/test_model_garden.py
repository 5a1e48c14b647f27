"""TF Model Garden's checkpoints: read to the same numbers, whatever else was saved."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.checkpoints.model_garden import is_model_garden, read_model_garden
from albert_keras.checkpoints.tf1 import write_tf1
from albert_keras.model import build_albert, config_of

pytestmark = pytest.mark.both_kerases

GOLDEN = Path(__file__).parent / "goldens" / "model_garden_tiny"
EXPECTED = dict(np.load(GOLDEN / "expected.npz"))
WEIGHTS = {
    name.removeprefix("weights/"): array
    for name, array in EXPECTED.items()
    if name.startswith("weights/")
}
CONFIG = json.loads((GOLDEN / "encoder" / "albert_config.json").read_text())


def inputs():
    names = {"token_ids": "word_ids", "segment_ids": "type_ids", "padding_mask": "mask"}
    return {ours: tf.constant(EXPECTED[f"input_{theirs}"]) for ours, theirs in names.items()}


@pytest.mark.parametrize("source", ["encoder", "saved_model", "encoder/bert_model.ckpt-1"])
def test_every_layer_gives_model_gardens_numbers(source):
    encoder, fit = read_model_garden(GOLDEN / source)
    assert not fit.missing and not fit.unused
    model = build_albert(config_of(encoder), output_all_layers=True)
    model.set_weights(encoder.get_weights())
    got = model(inputs())
    embedding, *layers = got["layer_outputs"]
    np.testing.assert_allclose(embedding, EXPECTED["embedding_output"], atol=1e-5)
    np.testing.assert_allclose(np.stack(layers), EXPECTED["layer_outputs"], atol=1e-5)
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(got[name], EXPECTED[name], atol=1e-5)


def test_the_head_for_masked_tokens_gives_model_gardens_numbers():
    model, fit = read_model_garden(GOLDEN / "pretrainer", allow_missing=["sop/*"])
    assert fit.missing == {"sop/kernel": (12, 2), "sop/bias": (2,)} and not fit.unused
    positions = tf.constant(EXPECTED["masked_lm_positions"])
    got = model({**inputs(), "masked_positions": positions})
    np.testing.assert_allclose(got["mlm_logits"], EXPECTED["mlm_logits"], atol=1e-5)


def test_a_pretrainers_missing_head_is_said_and_the_encoder_alone_can_be_read():
    with pytest.raises(ValueError, match=r"Allow sop/\* to be missing"):
        read_model_garden(GOLDEN / "pretrainer")
    model, fit = read_model_garden(GOLDEN / "pretrainer", allow_unused=["cls/predictions/*"])
    assert model.name == "albert" and len(fit.unused) == 5 and not fit.missing
    alone, _ = read_model_garden(GOLDEN / "encoder")
    for ours, theirs in zip(model.weights, alone.weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_weights_are_read_bit_by_bit():
    model, _ = read_model_garden(GOLDEN / "encoder")
    # No layout moves an element, it only adds an axis.
    got = sorted(weight.numpy().tobytes() for weight in model.weights)
    assert got == sorted(array.tobytes() for array in WEIGHTS.values())


def write(folder, weights, config=CONFIG, **more):
    """A checkpoint of variables with these names, in a graph of other objects than theirs."""
    folder.mkdir(exist_ok=True)
    variables = [tf.Variable(array, name=name) for name, array in weights.items()]
    tf.train.Checkpoint(anything=variables, **more).save(str(folder / "bert_model.ckpt"))
    (folder / "albert_config.json").write_text(json.dumps(config))
    return folder


def test_only_names_matter_not_the_objects_around_them(tmp_path):
    old = {
        name.replace("self_attention/attention_output", "self_attention_output"): array
        for name, array in WEIGHTS.items()
    }
    expected, _ = read_model_garden(GOLDEN / "encoder")
    for number, weights in enumerate([WEIGHTS, old]):
        model, _ = read_model_garden(write(tmp_path / str(number), weights))
        for ours, theirs in zip(model.weights, expected.weights, strict=True):
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_the_state_of_the_training_is_left_out(tmp_path):
    variables = [tf.Variable(array, name=name) for name, array in WEIGHTS.items()]
    optimizer = tf.compat.v1.train.MomentumOptimizer(0.0, 0.9)
    optimizer.apply_gradients([(tf.ones_like(variable), variable) for variable in variables])
    step = tf.Variable(3, dtype=tf.int64, name="global_step")
    folder = write(tmp_path / "x", {}, model=variables, optimizer=optimizer, global_step=step)
    names = [name for name, _ in tf.train.list_variables(str(folder / "bert_model.ckpt-1"))]
    assert any(".OPTIMIZER_SLOT" in name for name in names)
    _, fit = read_model_garden(folder)
    assert not fit.missing and not fit.unused
    # All others, save the object graph.
    assert fit.state == len(names) - len(WEIGHTS) - 1 > len(WEIGHTS)


def test_equal_embedding_and_hidden_sizes_have_no_projection(tmp_path):
    weights = {
        name: array
        for name, array in WEIGHTS.items()
        if not name.startswith("embedding_projection/")
    }
    for name in [name for name in weights if "embedding" in name]:
        weights[name] = np.resize(weights[name], (*weights[name].shape[:-1], 12))
    folder = write(tmp_path / "x", weights, {**CONFIG, "embedding_size": 12})
    model, _ = read_model_garden(folder)
    assert config_of(model).embedding_size == config_of(model).hidden_size == 12


def changed(**arrays):
    return {**WEIGHTS, **{name.replace("__", "/"): array for name, array in arrays.items()}}


MISFITS = {
    "another shape": (changed(pooler_transform__bias=np.zeros(3, "f4")), "shape: pooler_transform"),
    "a NaN": (changed(pooler_transform__bias=np.full(12, np.nan, "f4")), "NaN or infinite: pooler"),
    "a missing variable": (
        {name: array for name, array in WEIGHTS.items() if name != "type_embeddings/embeddings"},
        r"missing: type_embeddings/embeddings \(2, 8\)",
    ),
    "a task's head": (
        changed(next_sentence__logits__kernel=np.zeros((12, 2), "f4")),
        r"unexpected: next_sentence/logits/kernel \(12, 2\)",
    ),
    "a BERT": (
        {name.replace("transformer", "transformer/layer_0"): a for name, a in WEIGHTS.items()},
        "missing: transformer/intermediate/bias .*the nearest is transformer/layer_0/intermediate",
    ),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_what_does_not_fit_is_refused_by_name(tmp_path, misfit):
    weights, reason = MISFITS[misfit]
    with pytest.raises(ValueError, match=reason):
        read_model_garden(write(tmp_path / "x", weights))


def test_a_tasks_head_can_be_left_out(tmp_path):
    weights = MISFITS["a task's head"][0]
    model, fit = read_model_garden(write(tmp_path / "x", weights), allow_unused=["next_sentence/*"])
    assert model.name == "albert" and fit.unused == {"next_sentence/logits/kernel": (12, 2)}


def test_two_encoders_in_one_checkpoint_are_refused(tmp_path):
    again = [tf.Variable(array, name=name) for name, array in WEIGHTS.items()]
    with pytest.raises(ValueError, match="must hold one ALBERT.* is at anything/0.* and at second"):
        read_model_garden(write(tmp_path / "x", WEIGHTS, second=again))


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        # The heads have an axis in the file, so that a wrong number cannot pass.
        ("num_attention_heads", 2, r"query/kernel \(12, 3, 4\), the model has \(12, 2, 6\)"),
        ("type_vocab_size", 16, r"type_embeddings/embeddings \(2, 8\), the model has \(16, 8\)"),
        ("num_hidden_groups", 2, "num_hidden_groups and inner_group_num are 1. Received: 2 and 1"),
        ("hidden_act", "gelu_new", "`hidden_act` must be one of gelu, relu"),
    ],
)
def test_a_config_that_contradicts_the_checkpoint_is_refused(tmp_path, field, value, reason):
    with pytest.raises(ValueError, match=reason):
        read_model_garden(write(tmp_path / "x", WEIGHTS, {**CONFIG, field: value}))


def test_a_damaged_file_is_refused(tmp_path):
    folder = shutil.copytree(GOLDEN / "encoder", tmp_path / "x")
    [data] = folder.glob("*.data-*")
    data.write_bytes(data.read_bytes()[:9000])
    with pytest.raises(ValueError, match="damaged or cut off"):
        read_model_garden(folder)


def test_a_saved_model_alone_does_not_say_enough(tmp_path):
    folder = shutil.copytree(GOLDEN / "saved_model", tmp_path / "x")
    (folder / "albert_config.json").unlink()
    with pytest.raises(ValueError, match="needs albert_config.json: how many layers share"):
        read_model_garden(folder)


def test_the_object_graph_tells_it_from_googles(tmp_path):
    for source in ("encoder", "pretrainer", "saved_model", "encoder/bert_model.ckpt-1"):
        assert is_model_garden(GOLDEN / source)
    write_tf1(build_albert("tiny"), tmp_path / "google")
    for source in (tmp_path / "google", tmp_path, GOLDEN.parent / "keras_hub_tiny", "nowhere"):
        assert not is_model_garden(source)
    with pytest.raises(ValueError, match="has an object graph.*without one, a TF1 checkpoint"):
        read_model_garden(tmp_path / "google")
