"""albert-keras convert: what it prints, what it refuses, what it writes."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.checkpoints import load_albert, save_albert
from albert_keras.checkpoints.tf1 import read_tf1
from albert_keras.model import build_albert, build_pretrainer
from albert_keras.reshaping import with_settings
from tests.small_tokenizer import small_tokenizer
from tests.test_checkpoints import outputs

GOLDENS = Path(__file__).parent / "goldens"
VOCABULARY = Path(__file__).parent / "vocabularies" / "tiny.model"


def test_there_and_back_through_googles_layout(albert_keras, tmp_path):
    source = GOLDENS / "huggingface_tiny"
    code, out, _ = albert_keras("convert", source, tmp_path / "google", "--to", "google")
    assert code == 0
    assert "Hugging Face, albert_pretrainer" in out and "note: no vocabulary" in out
    code, out, _ = albert_keras("convert", tmp_path / "google", tmp_path / "back")
    assert code == 0 and "Google, albert_pretrainer" in out
    ours, theirs = outputs(load_albert(source)[0]), outputs(load_albert(tmp_path / "back")[0])
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_what_is_missing_and_left_out_is_printed_with_its_shape(albert_keras, tmp_path):
    source = GOLDENS / "huggingface_tiny"
    heads = [x for head in ("predictions.*", "sop*") for x in ("--allow-unused", head)]
    code, out, _ = albert_keras("convert", source, tmp_path / "x", *heads)
    assert code == 0 and "left out: sop_classifier.classifier.weight (2, 12)" in out
    assert load_albert(tmp_path / "x")[0].name == "albert"


def test_a_report_that_agrees_is_printed_and_one_that_does_not_stops(albert_keras, tmp_path):
    source, arrays = (
        GOLDENS / "huggingface_tiny",
        dict(np.load(GOLDENS / "huggingface_tiny" / "expected.npz")),
    )
    np.savez(tmp_path / "theirs.npz", **arrays)
    arguments = ["convert", source, tmp_path / "x", "--report"]
    code, out, err = albert_keras(*arguments, tmp_path / "theirs.npz")
    assert code == 2 and "sop_logits differs by" in err  # their column 1 is "swapped"
    assert "sequence_output: largest difference" in out
    assert not (tmp_path / "x").exists()
    arrays["sop_logits"] = arrays["sop_logits"][:, ::-1]
    np.savez(tmp_path / "ours.npz", **arrays)
    assert albert_keras(*arguments, tmp_path / "ours.npz")[0] == 0


def test_what_the_user_may_have_overlooked_is_said(albert_keras, tmp_path):
    tf.keras.utils.set_random_seed(0)
    encoder = build_albert("tiny", vocab_size=500)
    save_albert(build_pretrainer(encoder), tmp_path / "untrained", small_tokenizer())
    arguments = ["convert", tmp_path / "untrained", tmp_path / "x", "--allow-missing", "nosuch*"]
    code, out, _ = albert_keras(*arguments)
    assert code == 0
    assert "note: the vocabulary has 400 pieces, the model rows for 500." in out
    assert "no better than the mean of its own predictions" in out
    assert "note: --allow-missing nosuch* was not needed" in out


def test_two_kinds_of_checkpoints_in_a_folder_are_not_chosen_from(albert_keras, tmp_path):
    source = GOLDENS / "huggingface_tiny"
    assert albert_keras("convert", source, tmp_path / "google", "--to", "google")[0] == 0
    shutil.copy(source / "model.safetensors", tmp_path / "google")
    code, _, err = albert_keras("convert", tmp_path / "google", tmp_path / "x")
    assert code == 2 and "A folder holds one checkpoint" in err
    prefix = tmp_path / "google" / "model.ckpt-best"
    assert albert_keras("convert", prefix, tmp_path / "x")[0] == 0


@pytest.fixture
def mistaken(trained_on_the_paragraph, tmp_path):
    """A checkpoint of two heads whose config says one."""
    wrong = with_settings(trained_on_the_paragraph, num_attention_heads=1)
    save_albert(wrong, tmp_path / "mistaken", small_tokenizer())
    return tmp_path / "mistaken"


def test_a_contradiction_is_refused_unless_corrected_or_forced(albert_keras, mistaken, tmp_path):
    code, out, err = albert_keras("convert", mistaken, tmp_path / "x")
    assert code == 2 and "--set num_attention_heads=2" in err and "(configured)" in out
    assert not (tmp_path / "x").exists()
    code, _, _ = albert_keras("convert", mistaken, tmp_path / "x", "--set", "num_attention_heads=2")
    assert code == 0
    assert load_albert(tmp_path / "x")[0].get_layer("encoder").num_heads == 2
    assert albert_keras("convert", mistaken, tmp_path / "forced", "--force")[0] == 0
    assert load_albert(tmp_path / "forced")[0].get_layer("encoder").num_heads == 1


def test_the_vocabulary_goes_along(albert_keras, tmp_path):
    shutil.copytree(GOLDENS / "huggingface_tiny", tmp_path / "source")
    code, _, err = albert_keras(
        "convert", tmp_path / "source", tmp_path / "x", "--vocab", VOCABULARY
    )
    # 400 pieces, of which the model knows 60.
    assert code == 2 and "must not have more pieces than the model" in err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["absent"], "SOURCE must be there. Received: absent, which does not exist"),
        ([VOCABULARY.parent / "no.ckpt"], "SOURCE must be there. Received: "),
        ([GOLDENS / "huggingface_tiny", "--head", "classifier"], "--head is for Google's"),
        ([GOLDENS / "huggingface_tiny", "--vocab", "absent.model"], "--vocab must be there"),
        ([GOLDENS / "huggingface_tiny", "--report", "absent.npz"], "--report must be there"),
        ([GOLDENS / "huggingface_tiny", "--set", "hidden_size=24"], "hidden_size"),
        ([GOLDENS / "huggingface_tiny", "--set", "num_attention_heads=5"], "multiple"),
        ([GOLDENS / "huggingface_tiny", "--to", "torch"], "torch"),
    ],
)
def test_mistakes_end_with_code_2_and_nothing_written(albert_keras, tmp_path, arguments, message):
    source, *options = arguments
    code, _, err = albert_keras("convert", source, tmp_path / "x", *options)
    assert code == 2 and message in err and "Traceback" not in err
    assert not (tmp_path / "x").exists()


def test_a_destination_is_named_as_the_argument_it_is(albert_keras, tmp_path):
    source = GOLDENS / "huggingface_tiny"
    code, _, err = albert_keras("convert", source, tmp_path)
    assert code == 2 and f"DEST must not exist yet. Received: {tmp_path}" in err
    (tmp_path / "file").write_text("")
    code, _, err = albert_keras("convert", source, tmp_path / "file" / "x")
    assert code == 2 and "DEST must be where a folder can be made" in err


def test_the_exact_gelu_of_a_hugging_face_folder_is_remarked(albert_keras, tmp_path):
    source = GOLDENS / "huggingface_shapes" / "groups"
    code, out, _ = albert_keras("convert", source, tmp_path / "x")
    assert code == 0 and "note: the config says the exact GELU" in out
    tanh = ["--set", "hidden_act=gelu_tanh"]
    for arguments in (
        ["convert", source, tmp_path / "y", *tanh],
        ["convert", GOLDENS / "huggingface_tiny", tmp_path / "z"],
        ["convert", tmp_path / "x", tmp_path / "ours"],
    ):
        code, out, _ = albert_keras(*arguments)
        assert code == 0 and "GELU" not in out


def test_google_has_no_word_for_the_exact_gelu(albert_keras, tmp_path):
    arguments = ["convert", GOLDENS / "huggingface_tiny", tmp_path / "x", "--to", "google"]
    code, _, err = albert_keras(*arguments, "--set", "hidden_act=gelu_erf")
    assert code == 2 and "gelu_erf" in err
    code, _, _ = albert_keras(*arguments, "--set", "hidden_act=relu")
    assert code == 0
    assert read_tf1(tmp_path / "x")[0].get_layer("encoder").activation == "relu"
