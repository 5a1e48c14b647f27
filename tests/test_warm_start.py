"""A pretraining run from a checkpoint: of which format, what is taken, what is new and said."""

from pathlib import Path

import numpy as np
import pytest

from albert_keras.checkpoints import save_albert
from albert_keras.checkpoints.tf1 import CHECKPOINT, write_tf1
from albert_keras.model import build_albert, build_pretrainer, layers_of
from albert_keras.task_models import build_classifier, build_span_predictor
from albert_keras.tasks.warm_start import warm_start
from tests.layer_contract import fill_weights
from tests.small_tokenizer import small_tokenizer
from tests.test_reshaping import assert_equal_outputs, call

pytestmark = pytest.mark.both_kerases

GOLDENS = Path(__file__).parent / "goldens"
V = 400  # pieces of the small tokenizer


def filled(model):
    fill_weights(model)
    return model


def old_pretrainer(**config):
    return filled(build_pretrainer(build_albert("tiny", vocab_size=V, **config)))


def new_pretrainer(pair_objective="sop", **config):
    """Of a run with masking settings of its own."""
    encoder = build_albert("tiny", **{"vocab_size": V, **config})
    return build_pretrainer(encoder, max_predictions=2, ngram=1, pair_objective=pair_objective)


def weights_of(model, name):
    return [weight.copy() for weight in layers_of(model)[name].get_weights()]


def assert_equal_weights(values, others):
    for value, other in zip(values, others, strict=True):
        np.testing.assert_array_equal(value, other)


def test_a_saved_pretrainer_is_taken_whole(tmp_path):
    old, new = old_pretrainer(), new_pretrainer()
    save_albert(old, tmp_path / "old", small_tokenizer())
    origin = warm_start(new, tmp_path / "old", small_tokenizer())
    assert_equal_outputs(new, old)
    assert origin.text == f"starts from {tmp_path / 'old'} (Hugging Face, albert_pretrainer)"
    assert new.get_layer("masked_lm").ngram == 1  # the run's own
    again = warm_start(new_pretrainer(), tmp_path / "old", small_tokenizer())
    assert again.sha256 == origin.sha256
    old.get_layer("sop").dense.bias.assign_add([0.5, 0.0])
    save_albert(old, tmp_path / "other", small_tokenizer())
    assert warm_start(new, tmp_path / "other", small_tokenizer()).sha256 != origin.sha256


def test_a_checkpoint_of_google_is_taken_by_its_prefix(tmp_path):
    old, new = old_pretrainer(), new_pretrainer()
    write_tf1(old, tmp_path / "google")
    origin = warm_start(new, tmp_path / "google" / CHECKPOINT, small_tokenizer())
    assert_equal_outputs(new, old)
    assert "the checkpoint has none; its pieces are taken to be the run's" in origin.text


def test_a_shallower_model_grows_and_it_is_said(tmp_path):
    old = old_pretrainer(num_hidden_layers=1)
    save_albert(old, tmp_path / "old", small_tokenizer())
    new = new_pretrainer(max_position_embeddings=96, hidden_dropout_prob=0.1)
    # A warning would be an error: the text says what is new.
    lines = warm_start(new, tmp_path / "old", small_tokenizer()).text.splitlines()
    assert lines[1:] == [
        "num_hidden_layers 1 -> 3: the shared layer is used more often",
        "hidden_dropout_prob 0.0 -> 0.1",
        "max_position_embeddings 64 -> 96: new positions repeat the old ones, and no training has "
        "seen them",
    ]
    expected = old_pretrainer(num_hidden_layers=3)
    np.testing.assert_array_equal(call(new)["mlm_logits"], call(expected)["mlm_logits"])


def test_an_encoder_gets_heads_and_it_is_said(tmp_path):
    encoder = filled(build_albert("tiny", vocab_size=V))
    save_albert(encoder, tmp_path / "old", small_tokenizer())
    new = new_pretrainer()
    before = {name: weights_of(new, name) for name in ("masked_lm", "sop")}
    text = warm_start(new, tmp_path / "old", small_tokenizer()).text
    assert text.splitlines()[1:] == ["new, drawn at random: masked_lm, sop"]
    for name, values in before.items():
        assert_equal_weights(weights_of(new, name), values)
    for name in ("embeddings", "encoder", "pooler"):
        assert_equal_weights(weights_of(new, name), weights_of(encoder, name))


@pytest.mark.parametrize("objective", ["nsp", "none"])
def test_a_pair_head_of_another_objective_is_drawn_anew_and_it_is_said(tmp_path, objective):
    old = old_pretrainer()
    save_albert(old, tmp_path / "old", small_tokenizer())
    new = new_pretrainer(objective)
    before = weights_of(new, "sop")
    text = warm_start(new, tmp_path / "old", small_tokenizer()).text
    assert text.splitlines()[1:] == [
        "new, drawn at random: sop",
        "of the checkpoint, not used: sop (sop)",
    ]
    assert_equal_weights(weights_of(new, "sop"), before)
    assert_equal_weights(weights_of(new, "masked_lm"), weights_of(old, "masked_lm"))


def test_the_objective_of_a_checkpoint_comes_from_it(tmp_path):
    old = filled(build_pretrainer(build_albert("tiny", vocab_size=V), pair_objective="nsp"))
    save_albert(old, tmp_path / "old", small_tokenizer())
    new = new_pretrainer("nsp")
    assert "drawn" not in warm_start(new, tmp_path / "old", small_tokenizer()).text
    assert_equal_weights(weights_of(new, "sop"), weights_of(old, "sop"))
    assert "not used: sop (nsp)" in (
        warm_start(new_pretrainer("sop"), tmp_path / "old", small_tokenizer()).text
    )


def test_heads_of_tasks_are_left_out_and_it_is_said(tmp_path):
    classifier = filled(build_classifier(build_albert("tiny", vocab_size=V), 3))
    save_albert(classifier, tmp_path / "classifier", small_tokenizer(), ["a", "b", "c"])
    text = warm_start(new_pretrainer(), tmp_path / "classifier", small_tokenizer()).text
    assert text.splitlines()[1:] == [
        "new, drawn at random: masked_lm, sop",
        "of the checkpoint, not used: classifier",
    ]
    predictor = filled(build_span_predictor(build_albert("tiny", vocab_size=V)))
    save_albert(predictor, tmp_path / "predictor", small_tokenizer())
    text = warm_start(new_pretrainer(), tmp_path / "predictor", small_tokenizer()).text
    assert text.splitlines()[1:] == [
        "new, drawn at random: pooler, masked_lm, sop",
        "of the checkpoint, not used: span_predictor",
    ]


@pytest.mark.parametrize(
    "name,new",
    [
        ("huggingface_tiny", []),
        ("keras_hub_tiny", ["masked_lm", "sop"]),
        ("huggingface_bert_tiny", ["masked_lm", "sop"]),
        ("model_garden_tiny/encoder", ["masked_lm", "sop"]),
        ("model_garden_tiny/pretrainer", ["sop/kernel", "sop/bias"]),
    ],
)
def test_every_format_can_be_started_from(name, new):
    from albert_keras.checkpoints.bert import is_bert
    from albert_keras.checkpoints.formats import import_checkpoint
    from albert_keras.model import config_of

    allowed = {"allow_missing": ["sop/*"]}
    if is_bert(GOLDENS / name):
        allowed["allow_unused"] = ["cls*"]
    read = import_checkpoint(GOLDENS / name, **allowed).model
    pretrainer = build_pretrainer(build_albert(config_of(read)))
    text = warm_start(pretrainer, GOLDENS / name, small_tokenizer()).text
    drawn = [line for line in text.splitlines() if line.startswith("new, drawn at random: ")]
    assert drawn == ([f"new, drawn at random: {', '.join(new)}"] if new else [])
    for layer in ("embeddings", "encoder", "pooler"):
        assert_equal_weights(weights_of(pretrainer, layer), weights_of(read, layer))


def test_a_missing_head_is_said_by_its_tensors(tmp_path):
    """Hugging Face's class for masked words alone has no pooler and no pair head."""
    from safetensors.numpy import load_file, save_file

    save_albert(old_pretrainer(), tmp_path / "old", small_tokenizer())
    path = tmp_path / "old" / "model.safetensors"
    kept = {
        name: array
        for name, array in load_file(path).items()
        if "pooler" not in name and not name.startswith("sop")
    }
    save_file(kept, path, metadata={"format": "pt"})
    line = warm_start(new_pretrainer(), tmp_path / "old", small_tokenizer()).text.splitlines()[-1]
    assert line.startswith("new, drawn at random: ")
    assert all(part in line for part in ("pooler.weight", "sop_classifier.classifier.bias"))


def test_another_vocabulary_is_refused(tmp_path):
    class Other:
        """The small vocabulary with two pieces exchanged, or with more at its end."""

        def __init__(self, pieces, sha256="other"):
            self.vocab_size, self.sha256 = len(pieces), sha256
            self.lowercase, self.keep_accents = True, True
            self.piece = lambda index: pieces[index]

    tokenizer = small_tokenizer()
    save_albert(old_pretrainer(), tmp_path / "old", tokenizer)
    pieces = [tokenizer.piece(index) for index in range(V)]
    exchanged = [*pieces[:50], pieces[51], pieces[50], *pieces[52:]]
    for wrong in (exchanged, pieces[:50]):
        with pytest.raises(ValueError, match=f"piece 50 is {pieces[50]!r}, and"):
            warm_start(new_pretrainer(), tmp_path / "old", Other(wrong))
    text = warm_start(
        new_pretrainer(vocab_size=V + 2), tmp_path / "old", Other([*pieces, "x", "y"])
    ).text
    assert text.splitlines()[1:] == [
        "vocabulary: the checkpoint's 400 pieces are the first of the run's; keep_accents False -> "
        "True",
        "vocab_size 400 -> 402: new pieces begin near the mean of the old ones",
    ]


def test_a_model_that_cannot_grow_into_the_run_is_refused(tmp_path):
    save_albert(old_pretrainer(hidden_act="relu"), tmp_path / "old", small_tokenizer())
    with pytest.raises(ValueError, match="hidden_act relu -> gelu_tanh. Keep hidden_act='relu'"):
        warm_start(new_pretrainer(), tmp_path / "old", small_tokenizer())
    with pytest.raises(ValueError, match="which does not exist"):
        warm_start(new_pretrainer(), tmp_path / "nowhere", small_tokenizer())
