"""import_checkpoint: every format is told from the others, with its vocabulary and its labels."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from albert_keras.checkpoints import save_albert
from albert_keras.checkpoints.formats import import_checkpoint
from albert_keras.checkpoints.tf1 import CHECKPOINT, write_tf1
from albert_keras.model import build_albert
from albert_keras.task_models import build_multiple_choice
from tests.small_tokenizer import small_tokenizer
from tests.test_checkpoints import LABELS, tiny

pytestmark = pytest.mark.both_kerases

GOLDENS = Path(__file__).parent / "goldens"
VOCABULARY = Path(__file__).parent / "vocabularies" / "tiny.model"


@pytest.fixture
def google(tmp_path):
    write_tf1(tiny("pretrainer", vocab_size=400), tmp_path / "google")
    return tmp_path / "google"


@pytest.mark.parametrize(
    "name, format, model",
    [
        ("huggingface_tiny", "Hugging Face", "albert_pretrainer"),
        ("keras_hub_tiny", "keras-hub", "albert"),
        ("huggingface_bert_tiny", "BERT", "albert"),
        ("model_garden_tiny/encoder", "TF Model Garden", "albert"),
    ],
)
def test_goldens_of_each_format_are_recognised(name, format, model):
    allowed = {"allow_unused": ["cls*"]} if format == "BERT" else {}
    read = import_checkpoint(GOLDENS / name, **allowed)
    assert (read.format, read.model.name) == (format, model)
    assert read.tokenizer is None and read.labels is None


def test_googles_folder_and_its_prefix_are_recognised(google):
    for source in (google, google / CHECKPOINT):
        read = import_checkpoint(source)
        assert (read.format, read.model.name) == ("Google", "albert_pretrainer")


def test_the_vocabulary_in_the_folder_is_taken(google):
    shutil.copy(VOCABULARY, google / "30k-clean.model")
    assert import_checkpoint(google).tokenizer.vocab_size == 400
    assert import_checkpoint(google, lowercase=False).tokenizer.lowercase is False


def test_two_vocabularies_are_not_chosen_from(google):
    for name in ("a.model", "b.model"):
        shutil.copy(VOCABULARY, google / name)
    with pytest.raises(ValueError, match="with a.model, b.model. Name the file"):
        import_checkpoint(google)
    assert import_checkpoint(google, vocab=google / "a.model").tokenizer.vocab_size == 400


def test_a_classifier_keeps_its_labels_and_its_length(tmp_path):
    classifier = tiny("classifier", vocab_size=400)
    save_albert(classifier, tmp_path / "x", small_tokenizer(), LABELS, max_length=48)
    read = import_checkpoint(tmp_path / "x")
    assert (read.labels, read.max_length) == (LABELS, 48)
    with_out = import_checkpoint(tmp_path / "x", allow_unused=["classifier.*"])
    assert (with_out.labels, with_out.max_length) == (None, 48)
    assert read.tokenizer.sha256 == small_tokenizer().sha256
    read = import_checkpoint(tmp_path / "x", allow_unused=["classifier.*"])
    assert read.model.name == "albert" and read.labels is None
    assert read.fit.unused == {"classifier.weight": (3, 24), "classifier.bias": (3,)}


def test_what_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(ValueError, match="A checkpoint is config.json and .* is none of them"):
        import_checkpoint(tmp_path)
    with pytest.raises(ValueError, match="absent, which does not exist"):
        import_checkpoint(tmp_path / "absent")


def test_a_classifier_without_names_gets_numbered_ones(tmp_path):
    write_tf1(tiny("classifier"), tmp_path / "google")
    assert import_checkpoint(tmp_path / "google").labels == ["LABEL_0", "LABEL_1", "LABEL_2"]


def test_the_kind_of_a_head_is_said_for_googles_alone(tmp_path):
    write_tf1(build_multiple_choice(build_albert("tiny")), tmp_path / "google")
    with pytest.raises(ValueError, match="nothing in the file tells which"):
        import_checkpoint(tmp_path / "google")
    read = import_checkpoint(tmp_path / "google", head="multiple_choice")
    assert "multiple_choice" in read.model.name
    for name in ("huggingface_tiny", "model_garden_tiny/encoder"):
        with pytest.raises(ValueError, match="`head` is for Google's checkpoints"):
            import_checkpoint(GOLDENS / name, head="classifier")


def test_a_pretrainer_masks_with_the_piece_of_its_vocabulary(google):
    """In Google's Chinese vocabulary and BERT's [MASK] is 103; here it is 6."""
    special = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "a", "[MASK]"]
    (google / "vocab.txt").write_text("\n".join(special) + "\n")
    read = import_checkpoint(google)
    assert read.tokenizer.mask_id == 6 == read.model.get_layer("masked_lm").mask_id
    save_albert(read.model, google.parent / "ours", read.tokenizer)
    again = import_checkpoint(google.parent / "ours").model
    assert again.get_layer("masked_lm").mask_id == 6
    # As Hugging Face has it: without a word on which piece it is.
    (google.parent / "ours" / "albert_keras.json").unlink()
    theirs = import_checkpoint(google.parent / "ours").model
    assert theirs.get_layer("masked_lm").mask_id == 6


def test_one_half_of_a_checkpoint_is_named(tmp_path, google):
    (google / f"{CHECKPOINT}.data-00000-of-00001").unlink()
    with pytest.raises(ValueError, match="damaged or cut off"):
        import_checkpoint(google)
    save_albert(build_albert("tiny"), tmp_path / "ours")
    (tmp_path / "ours" / "model.safetensors").rename(tmp_path / "ours" / "pytorch_model.bin")
    with pytest.raises(ValueError, match="pickled pytorch_model.bin is never read"):
        import_checkpoint(tmp_path / "ours")


def test_an_unknown_model_type_is_refused(tmp_path):
    shutil.copytree(GOLDENS / "huggingface_tiny", tmp_path / "x")
    config = json.loads((tmp_path / "x" / "config.json").read_text())
    (tmp_path / "x" / "config.json").write_text(json.dumps({**config, "model_type": "roberta"}))
    with pytest.raises(ValueError, match="`model_type` must be 'albert'. Received: 'roberta'"):
        import_checkpoint(tmp_path / "x")


def test_formats_hand_on_the_same_weights(tmp_path):
    """Ours -> Google -> ours -> Hugging Face's layout: not a bit changes."""
    model = tiny("pretrainer", vocab_size=400)
    write_tf1(model, tmp_path / "google")
    save_albert(import_checkpoint(tmp_path / "google").model, tmp_path / "folder")
    again = import_checkpoint(tmp_path / "folder").model
    for ours, theirs in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
