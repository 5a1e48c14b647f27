"""BERT checkpoints, the paper's baseline: read to the same numbers, from both of their layouts."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from albert_keras.checkpoints.bert import is_bert, read_bert
from albert_keras.model import config_of
from albert_keras.reshaping import with_settings
from tests.test_tf1 import save

pytestmark = pytest.mark.both_kerases

GOLDEN = Path(__file__).parent / "goldens" / "huggingface_bert_tiny"
HEADS = ["cls*"]


def check_numbers(read):
    model, _ = read
    expected = np.load(GOLDEN / "expected.npz")
    inputs = ("token_ids", "segment_ids", "padding_mask")
    got = model({name: tf.constant(expected[name]) for name in inputs})
    np.testing.assert_allclose(got["pooled_output"], expected["pooled_output"], atol=1e-5)
    tokens = expected["padding_mask"] == 1
    np.testing.assert_allclose(
        got["sequence_output"].numpy()[tokens], expected["sequence_output"][tokens], atol=1e-5
    )


def test_a_bert_of_hugging_face_gives_their_numbers():
    read = read_bert(GOLDEN, allow_unused=HEADS)
    check_numbers(read)
    config = config_of(read[0])
    assert (config.sharing, config.hidden_act) == ("none", "gelu_erf")
    assert config.embedding_size == config.hidden_size == 12


def test_the_next_sentence_head_is_never_taken_for_one_of_order():
    with pytest.raises(ValueError, match=r"unexpected: cls.seq_relationship.weight \(2, 12\)"):
        read_bert(GOLDEN)
    model, fit = read_bert(GOLDEN, allow_unused=HEADS)
    assert model.name == "albert" and "cls.seq_relationship.weight" in fit.unused


def test_names_from_before_2019_are_read(tmp_path):
    shutil.copy(GOLDEN / "config.json", tmp_path)
    tensors = load_file(GOLDEN / "model.safetensors")
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    for name in list(tensors):
        for new, before in old.items():
            if name.endswith(new):
                tensors[name.replace(new, before)] = tensors.pop(name)
    tensors["bert.embeddings.position_ids"] = np.arange(16, dtype=np.float32)
    save_file(tensors, tmp_path / "model.safetensors")
    check_numbers(read_bert(tmp_path, allow_unused=HEADS))


def as_tf1(name, array):
    """The name and layout that Google's code gives a tensor of theirs."""
    name = name.replace(".", "/").replace("encoder/layer/", "encoder/layer_")
    module, _, weight = name.rpartition("/")
    if "LayerNorm" in name:
        return f"{module}/{'gamma' if weight == 'weight' else 'beta'}", array
    if module.endswith("_embeddings"):
        return module, array
    if name.startswith("bert/pooler") or "dense" in name or "/self/" in name:
        return (f"{module}/kernel", array.T) if weight == "weight" else (name, array)
    return name, array


def test_googles_own_folder_gives_the_same_numbers(tmp_path):
    arrays = load_file(GOLDEN / "model.safetensors")
    tensors = dict(as_tf1(name, array) for name, array in arrays.items())
    slots = {f"{name}/adam_m": array for name, array in tensors.items()}
    save(tmp_path / "bert_model.ckpt", {**tensors, **slots, "global_step": np.int64(7)})
    fields = json.loads((GOLDEN / "config.json").read_text())
    del fields["layer_norm_eps"], fields["model_type"]
    (tmp_path / "bert_config.json").write_text(json.dumps(fields))
    save(tmp_path / "other.ckpt", {"global_step": np.int64(1)})
    with pytest.raises(ValueError, match="must hold one TensorFlow checkpoint"):
        read_bert(tmp_path, allow_unused=HEADS)
    for name in ("bert_model.ckpt", "bert_model.ckpt.index"):
        assert is_bert(tmp_path / name)
        read = read_bert(tmp_path / name, allow_unused=HEADS)
        # "gelu" is the tanh form to Google's code, and the exact one to Hugging Face's.
        assert config_of(read[0]).hidden_act == "gelu_tanh"
        check_numbers((with_settings(read[0], hidden_act="gelu_erf"), read[1]))
        assert read[1].state == len(tensors) + 1


def test_a_tensor_that_is_there_under_two_names_is_refused(tmp_path):
    shutil.copy(GOLDEN / "config.json", tmp_path)
    tensors = load_file(GOLDEN / "model.safetensors")
    name = next(name for name in tensors if name.endswith("LayerNorm.weight"))
    tensors[name.replace("weight", "gamma")] = tensors[name] + 1
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="must hold each tensor once. Received: .*LayerNorm"):
        read_bert(tmp_path, allow_unused=HEADS)


def test_a_bert_of_model_garden_is_refused_with_the_reason(tmp_path):
    kernel = tf.Variable(np.zeros((12, 12), "f4"), name="pooler_transform/kernel")
    tf.train.Checkpoint(model=kernel).save(str(tmp_path / "bert_model.ckpt"))
    shutil.copy(GOLDEN / "config.json", tmp_path / "bert_config.json")
    for source in (tmp_path, tmp_path / "bert_model.ckpt-1"):
        assert is_bert(source)
        with pytest.raises(ValueError, match="of TF2 with an object graph, as TF Model Garden's"):
            read_bert(source)


def test_only_a_bert_is_taken_for_one(tmp_path):
    assert is_bert(GOLDEN) and not is_bert(GOLDEN.parent / "huggingface_tiny")
    assert not is_bert(tmp_path)
    fields = json.loads((GOLDEN / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**fields, "hidden_act": "swish"}))
    with pytest.raises(ValueError, match="`hidden_act` must be one of gelu, gelu_new, relu"):
        read_bert(tmp_path)
