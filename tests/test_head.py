"""Heads in a checkpoint folder: which it has, against Hugging Face's own files, and refusals."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from albert_keras.checkpoints import load_albert, load_head, save_albert
from albert_keras.model import encoder_of
from tests.test_checkpoints import LABELS, edit_json, edit_tensors, outputs, tiny

pytestmark = pytest.mark.both_kerases

# goldens/make_huggingface_heads_tiny.py and make_huggingface_tiny.py made them.
GOLDENS = Path(__file__).parent / "goldens"
PRETRAINER = GOLDENS / "huggingface_tiny"
HEADS = {
    "span_predictor": GOLDENS / "huggingface_question_answering_tiny",
    "multiple_choice": GOLDENS / "huggingface_multiple_choice_tiny",
}
# Measured: 4e-7 at most; the largest logit is about 1.
TOLERANCE = 1e-5


@pytest.mark.parametrize("kind", HEADS)
def test_their_model_gives_their_numbers(kind):
    expected = dict(np.load(HEADS[kind] / "expected.npz"))
    batch = [expected.pop(name) for name in ("token_ids", "segment_ids", "padding_mask")]
    model, _ = load_albert(HEADS[kind])
    assert model.name == f"albert_{kind}"
    got = outputs(model, *batch)
    assert got.keys() == expected.keys()
    # A score of a padding position is compared too: keys are masked, positions are not.
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("kind", HEADS)
def test_their_model_saved_by_us_is_their_file_again(tmp_path, kind):
    save_albert(load_albert(HEADS[kind])[0], tmp_path / "ours")
    theirs = load_file(HEADS[kind] / "model.safetensors")
    ours = load_file(tmp_path / "ours" / "model.safetensors")
    assert ours.keys() == theirs.keys()
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    config = json.loads((HEADS[kind] / "config.json").read_text())
    written = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert written.items() <= config.items()


def test_their_dropout_is_read():
    assert load_head(HEADS["multiple_choice"])["dropout"] == 0.25
    assert load_head(HEADS["span_predictor"])["dropout"] == 0.0


@pytest.fixture
def theirs(tmp_path):
    """Copies one of the folders, with other fields in its config, and changes its tensors."""

    def copy(source, change=lambda tensors: None, **fields):
        shutil.copytree(source, tmp_path / "theirs")
        edit_json(tmp_path / "theirs" / "config.json", **fields)
        edit_tensors(tmp_path / "theirs", change)
        return tmp_path / "theirs"

    return copy


def test_the_same_tensors_are_the_class_that_architectures_names(theirs):
    source = HEADS["multiple_choice"]
    assert load_head(source)["kind"] == "multiple_choice"
    folder = theirs(
        source, architectures=["AlbertForSequenceClassification"], id2label={"0": "LABEL_0"}
    )
    assert load_head(folder)["kind"] == "classifier"
    assert load_albert(folder)[0].get_layer("classifier").units == 1


@pytest.mark.parametrize(
    "name", ["AlbertForTokenClassification", "AlbertForSomething", "BertForMaskedLM"]
)
def test_a_class_without_a_model_here_is_refused_by_name(theirs, name):
    folder = theirs(HEADS["multiple_choice"], architectures=[name])
    with pytest.raises(ValueError, match=f'Received: {name}. Its encoder .* "classifier.\\*" as'):
        load_albert(folder)
    with pytest.warns(UserWarning, match=r"Left out: classifier.bias, classifier.weight"):
        model, _ = load_albert(folder, allow_unused=["classifier.*"])
    assert model.name == "albert"


@pytest.mark.parametrize("architectures", [None, [], ["AlbertForPreTraining"]])
def test_a_classifier_of_no_class_is_not_guessed(theirs, architectures):
    folder = theirs(HEADS["multiple_choice"], architectures=architectures)
    with pytest.raises(ValueError, match="must name its class, AlbertForSequenceClassification or"):
        load_albert(folder)


@pytest.mark.parametrize("architectures", ["AlbertModel", ["A", "B"], [3]])
def test_architectures_must_be_one_name(theirs, architectures):
    folder = theirs(PRETRAINER, architectures=architectures)
    with pytest.raises(ValueError, match="`architectures` must name one class. Received: .*[AB3]"):
        load_albert(folder)


@pytest.mark.parametrize(
    "kind,source", [("span_predictor", HEADS["span_predictor"]), ("pretrainer", PRETRAINER)]
)
def test_other_heads_need_no_architectures(theirs, kind, source):
    assert load_head(theirs(source, architectures=None))["kind"] == kind


def test_a_stray_tensor_makes_no_head(theirs):
    def change(tensors):
        for name in [name for name in tensors if not name.startswith("albert.")]:
            del tensors[name]
        tensors["cls.weight"] = np.zeros(3, np.float32)

    with pytest.raises(ValueError, match=r"unexpected: cls.weight \(3,\)") as error:
        load_albert(theirs(PRETRAINER, change))
    assert "missing:" not in str(error.value)


# ---- what their files lack or have too much ----


def drop(*prefixes):
    def change(tensors):
        for name in [name for name in tensors if name.startswith(prefixes)]:
            del tensors[name]

    return change


def test_a_masked_lm_of_theirs_is_a_pretrainer_with_new_weights_only_where_allowed(theirs):
    folder = theirs(
        PRETRAINER, drop("sop_classifier.", "albert.pooler."), architectures=["AlbertForMaskedLM"]
    )
    lacking = ["albert.pooler.bias", "albert.pooler.weight"]
    lacking += ["sop_classifier.classifier.bias", "sop_classifier.classifier.weight"]
    with pytest.raises(ValueError, match="drawn anew only where `allow_missing` has") as error:
        load_albert(folder)
    for name in lacking:
        assert f"missing: {name} (" in str(error.value)
    with pytest.raises(ValueError, match="missing: albert.pooler.weight") as error:
        load_albert(folder, allow_missing=["sop_classifier.*"])
    assert "missing: sop" not in str(error.value)
    with pytest.warns(UserWarning, match="Drawn anew: ") as warned:
        model, _ = load_albert(folder, allow_missing=["sop_classifier.*", "*pooler.*"])
    assert all(name in str(warned[0].message) for name in lacking)
    # What was there is theirs.
    expected = np.load(PRETRAINER / "expected.npz")
    got = outputs(model, *(expected[n] for n in ("token_ids", "segment_ids", "padding_mask")))
    real = expected["padding_mask"].astype(bool)
    np.testing.assert_allclose(
        got["mlm_logits"][real], expected["mlm_logits"][real], rtol=0, atol=2e-5
    )


def test_a_pretrainer_from_before_their_sop_head(theirs):
    folder = theirs(PRETRAINER, drop("sop_classifier."))
    with pytest.raises(ValueError, match=r"missing: sop_classifier.classifier.weight \(2, 12\)"):
        load_albert(folder)
    with pytest.warns(UserWarning, match="Drawn anew: sop_classifier"):
        load_albert(folder, allow_missing=["sop_classifier.*"])


@pytest.mark.parametrize("prefix", ["albert.", ""])
def test_the_numbers_of_the_positions_in_older_files_are_no_weight(theirs, prefix):
    def change(tensors):
        for name in list(tensors) if not prefix else []:
            array = tensors.pop(name)
            if name.startswith("albert."):
                tensors[name.removeprefix("albert.")] = array
        tensors[f"{prefix}embeddings.position_ids"] = np.arange(16)[None]

    model, _ = load_albert(theirs(PRETRAINER, change))
    assert model.name == ("albert_pretrainer" if prefix else "albert")


def test_the_pooler_in_older_files_for_question_answering_is_left_out_and_said(theirs):
    def change(tensors):
        tensors["albert.pooler.weight"] = np.ones((12, 12), np.float32)
        tensors["albert.pooler.bias"] = np.ones(12, np.float32)

    with pytest.warns(UserWarning, match="Left out: albert.pooler.bias, albert.pooler.weight"):
        model, _ = load_albert(theirs(HEADS["span_predictor"], change))
    assert model.name == "albert_span_predictor"


# ---- our own folders ----


def test_an_encoder_without_a_pooler_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="saved with its pooler. .* Save the span predictor"):
        save_albert(encoder_of(tiny("span_predictor")), tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("kind", ["pretrainer", "span_predictor", "multiple_choice"])
def test_labels_are_for_classifiers_only(tmp_path, kind):
    with pytest.raises(ValueError, match="`labels` belong to a classifier"):
        save_albert(tiny(kind), tmp_path / "x", labels=LABELS)


def test_the_settings_of_a_head_stay_where_only_a_part_is_left_out(tmp_path):
    save_albert(tiny("pretrainer"), tmp_path / "x")
    edit_tensors(
        tmp_path / "x", lambda t: t.update({"sop_classifier.old": np.zeros(2, np.float32)})
    )
    with pytest.warns(UserWarning, match="Left out: sop_classifier.old"):
        model, _ = load_albert(tmp_path / "x", allow_unused=["sop_classifier.old"])
    assert model.get_layer("masked_lm").max_predictions == 5


@pytest.mark.parametrize(
    "head",
    [
        {"kind": "span_predictor", "dropout": 0.1},
        {"kind": "encoder"},
        {"kind": "span_predictor", "dropout": 0.1, "max_length": 9, "labels": ["a"]},
        {"kind": "multiple_choice", "max_length": 9},
        {"kind": "squad2", "dropout": 0.1, "max_length": 9},
    ],
)
def test_a_head_that_was_not_written_so_is_refused(tmp_path, head):
    save_albert(tiny("span_predictor"), tmp_path / "x")
    edit_json(tmp_path / "x" / "albert_keras.json", head=head)
    with pytest.raises(ValueError, match="albert_keras.json: `head` must have a kind, one of"):
        load_albert(tmp_path / "x")
