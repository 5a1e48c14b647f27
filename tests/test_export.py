"""An export answers raw strings as the Keras model does, in loaders that know no Keras."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.export import ServedModel, export_saved_model, saved_model
from albert_keras.model import build_albert
from albert_keras.task_models import build_classifier
from tests.small_tokenizer import VOCAB_SIZE, small_tokenizer

pytestmark = pytest.mark.both_kerases

ROOT = Path(__file__).parents[1]
LABELS = ["harbour", "Küche", "dog"]
SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "A letter that nobody had posted lay on the table all week.",
    "They measured the bridge twice, wrote down 1,204 metres and went home.",
]
TEXTS = [*SENTENCES, "", "  ", "[SEP] [MASK]", "Ça va? \u00e9\u0301", "a" * 300]
# Float32 sums in another order; measured 1e-7.
TOLERANCE = 1e-5


def classifier():
    """A small classifier whose logits differ from text to text."""
    model = build_classifier(build_albert("tiny", vocab_size=VOCAB_SIZE), len(LABELS))
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if "LayerNorm" not in getattr(weight, "path", weight.name):
            weight.assign(rng.normal(0, 0.4, tuple(weight.shape)).astype("float32"))
    return model


def export(model, folder, **settings):
    settings = {"labels": LABELS, **settings}
    return export_saved_model(model, small_tokenizer(), folder, **settings)


def ask(folder, texts):
    return ServedModel(folder).ask({"text": texts})


def keras_logits(model, text, max_length=64):
    """The Keras model on one text, through the Python view of the tokenizer, without padding."""
    ids = [2, *small_tokenizer().encode(text)[: max_length - 2], 3]
    rows = {"token_ids": np.array([ids], "int32")}
    rows |= {"segment_ids": 0 * rows["token_ids"], "padding_mask": 0 * rows["token_ids"] + 1}
    return model(rows, training=False)["logits"].numpy()[0]


@pytest.fixture(scope="module")
def model():
    return classifier()


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "mail"
    return export(model, folder)


@pytest.fixture(scope="module")
def answer(exported):
    signature = tf.saved_model.load(str(exported)).signatures["serving_default"]

    def ask(texts):
        outputs = signature(text=tf.constant(texts, tf.string, shape=[len(texts)]))
        return {name: value.numpy() for name, value in outputs.items()}

    return ask


@pytest.fixture
def checked_without_a_process(monkeypatch):
    """For tests of what comes before and after the self-check, which takes seconds."""
    monkeypatch.setattr(saved_model, "check_export", lambda *arguments: {})


def test_the_export_gives_the_keras_models_answers_on_raw_strings(model, answer):
    expected = np.stack([keras_logits(model, text) for text in TEXTS])
    assert np.ptp(expected, axis=0).min() > 0.1, "the texts must not all give the same logits"
    outputs = answer(TEXTS)
    np.testing.assert_allclose(outputs["logits"], expected, atol=TOLERANCE)
    exponents = np.exp(expected)
    probabilities = exponents / exponents.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(outputs["probabilities"], probabilities, atol=TOLERANCE)
    np.testing.assert_allclose(outputs["score"], probabilities.max(axis=1), atol=TOLERANCE)
    names = [label.decode() for label in outputs["label"]]
    assert names == [LABELS[index] for index in expected.argmax(axis=1)]
    assert len(set(names)) > 1


def test_the_session_loader_gives_the_same_answers(model, exported):
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(exported))
        signature = loaded.signature_def["serving_default"]
        assert set(signature.inputs) == {"text"}
        assert set(signature.outputs) == {"label", "score", "probabilities", "logits"}
        logits = session.run(
            signature.outputs["logits"].name, {signature.inputs["text"].name: TEXTS}
        )
    expected = np.stack([keras_logits(model, text) for text in TEXTS])
    np.testing.assert_allclose(logits, expected, atol=TOLERANCE)


def test_an_answer_does_not_depend_on_the_texts_beside_it(answer):
    together = answer(TEXTS)
    for index, text in enumerate(TEXTS):
        alone = answer([text])
        np.testing.assert_allclose(alone["logits"][0], together["logits"][index], atol=TOLERANCE)
        assert alone["label"][0] == together["label"][index]


def test_a_batch_of_nothing_is_answered_with_nothing(answer):
    shapes = {name: value.shape for name, value in answer([]).items()}
    assert shapes == {"label": (0,), "score": (0,), "probabilities": (0, 3), "logits": (0, 3)}


def test_broken_utf8_is_answered_as_its_repaired_text(answer):
    broken, repaired = answer([b"the \xff\xfe fox", "the \ufffd\ufffd fox"])["logits"]
    np.testing.assert_allclose(broken, repaired, atol=TOLERANCE)


def test_a_text_far_beyond_the_limits_is_answered_by_its_beginning(model, answer):
    text = " ".join(SENTENCES * 30_000)  # 5 MB
    expected = keras_logits(model, text[:5_000])
    np.testing.assert_allclose(answer([text])["logits"][0], expected, atol=TOLERANCE)


def test_the_metadata_say_what_was_exported(exported):
    metadata = json.loads((exported / "assets.extra" / "metadata.json").read_text())
    assert metadata["labels"] == LABELS
    assert metadata["max_length"] == 64 and metadata["byte_limit"] == 64 * 128
    assert metadata["vocabulary_sha256"] == small_tokenizer().sha256
    assert metadata["self_check"]["largest_difference"] < TOLERANCE
    assert exported.name == "1" and [path.name for path in exported.parent.iterdir()] == ["1"]


@pytest.mark.usefixtures("checked_without_a_process")
def test_a_shorter_length_cuts_texts_where_training_would(model, tmp_path):
    path = export(model, tmp_path / "x", max_length=9)
    answers = tf.saved_model.load(str(path)).signatures["serving_default"](tf.constant(TEXTS))
    expected = np.stack([keras_logits(model, text, max_length=9) for text in TEXTS])
    np.testing.assert_allclose(answers["logits"], expected, atol=TOLERANCE)


# ---- exports that are broken ----


def save_then(change, monkeypatch):
    """Lets `change(folder)` happen between writing and checking."""
    save = tf.saved_model.save

    def save_and_change(served, folder, **settings):
        save(served, folder, **settings)
        change(folder)

    monkeypatch.setattr(tf.saved_model, "save", save_and_change)


def test_an_export_with_another_weight_than_the_model_is_not_written(monkeypatch, tmp_path):
    model = classifier()
    bias = model.get_layer("encoder").ffn_blocks[0].intermediate.bias
    right, save = bias.numpy(), tf.saved_model.save

    def save_wrong(*arguments, **settings):
        bias.assign(right + np.eye(len(right), dtype="float32")[0])  # one number of 10,000
        save(*arguments, **settings)
        bias.assign(right)

    monkeypatch.setattr(tf.saved_model, "save", save_wrong)
    with pytest.raises(RuntimeError, match="not written:\n.*logits differs from the Keras model"):
        export(model, tmp_path / "served")
    assert list(tmp_path.iterdir()) == []


def test_an_export_with_a_damaged_file_is_not_written(monkeypatch, tmp_path):
    def damage(folder):
        [path] = tf.io.gfile.glob(f"{folder}/variables/variables.data*")
        with open(path, "r+b") as file:
            file.seek(100)
            file.write(b"\xff" * 8)

    save_then(damage, monkeypatch)
    with pytest.raises(RuntimeError, match="not written:\n.*saved_model.load: DataLossError"):
        export(classifier(), tmp_path / "served")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(tf.keras, "ops"), reason="the variables of Keras 2 are raw ones")
def test_an_export_that_holds_keras_variables_is_caught_by_the_session_loader(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(saved_model, "raw_variables", lambda model: list(model.weights))
    with pytest.raises(
        RuntimeError, match="(?s)TF1 session loader: .*Could not find variable"
    ) as error:
        export(classifier(), tmp_path / "served")
    assert "tf.saved_model.load" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


# ---- what cannot be exported ----


@pytest.mark.usefixtures("checked_without_a_process")
def test_a_version_that_exists_is_refused_and_another_goes_beside_it(model, tmp_path):
    export(model, tmp_path / "x")
    with pytest.raises(ValueError, match="must not exist yet. Received: .*x/1"):
        export(model, tmp_path / "x")
    export(model, tmp_path / "x", version=2)
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == ["1", "2"]


@pytest.mark.parametrize(
    "changes,message",
    [
        ({"labels": LABELS[:2]}, "`labels` must be 3 different names"),
        ({"labels": ["a", "a", "b"]}, "`labels` must be 3 different names"),
        ({"labels": ["a", "", "b"]}, "`labels` must be 3 different names"),
        ({"version": 0}, "`version` must be a whole number from 1 on"),
        ({"version": "1"}, "`version` must be a whole number from 1 on"),
        ({"max_length": 65}, "between 5 and the model's 64 positions"),
        ({"max_length": 2}, "between 5 and the model's 64 positions"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(model, tmp_path, changes, message):
    arguments = {"labels": LABELS, "folder": tmp_path / "x", **changes}
    with pytest.raises(ValueError, match=message):
        export(model, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_no_builder_made_is_refused(tmp_path):
    encoder = build_albert("tiny", vocab_size=VOCAB_SIZE)
    model = tf.keras.Model(encoder.input, {"first": encoder.output["pooled_output"][:, 0]})
    with pytest.raises(ValueError, match="must be one of build_albert, .* outputs first"):
        export(model, tmp_path / "x", labels=None)


def test_a_tokenizer_with_more_pieces_than_the_model_is_refused(tmp_path):
    model = build_classifier(build_albert("tiny"), len(LABELS))
    with pytest.raises(ValueError, match="400 pieces, vocab_size 100"):
        export(model, tmp_path / "x")


def test_a_model_that_computes_in_16_bits_is_refused(tmp_path):
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        model = classifier()
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    with pytest.raises(ValueError, match="computes in float32.*Received: .* bfloat16"):
        export(model, tmp_path / "x")


# ---- asking ----


def test_the_newest_version_is_asked(exported, answer, tmp_path):
    expected = answer(TEXTS)
    got = ask(exported.parent, TEXTS)
    assert [one["label"] for one in got] == [label.decode() for label in expected["label"]]
    scores = [one["score"] for one in got]
    np.testing.assert_allclose(scores, expected["score"], atol=TOLERANCE)
    assert ask(exported, []) == []
    surrogate, repaired = ask(exported, ["the \udcff fox", "the \ufffd\ufffd\ufffd fox"])
    assert surrogate == repaired
    # 10 is newer than 9, which would not load.
    shutil.copytree(exported, tmp_path / "10")
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "saved_model.pb").write_bytes(b"")
    assert ask(tmp_path, TEXTS) == got


def test_folders_that_are_no_versions_are_looked_past(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "1")
    shutil.copytree(exported, tmp_path / "1old")
    assert ask(tmp_path, TEXTS) == ask(exported, TEXTS)


@pytest.mark.parametrize("name", ["variables/variables.data-00000-of-00001", "saved_model.pb"])
@pytest.mark.parametrize("size", [0, 100])
def test_an_export_with_a_file_that_is_cut_off_is_named(exported, tmp_path, name, size):
    shutil.copytree(exported, tmp_path / "1")
    (tmp_path / "1" / name).write_bytes((exported / name).read_bytes()[:size])
    with pytest.raises(ValueError, match=f"The export in {tmp_path}/1 is damaged or cut off"):
        ask(tmp_path, ["A text."])


def test_asking_loads_no_keras_and_no_models(exported):
    process = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys\n"
            "import tensorflow\n"  # looks for Keras itself
            "before = set(sys.modules)\n"
            "from albert_keras.export import ServedModel\n"
            f"ServedModel({str(exported)!r}).ask({{'text': ['A text.']}})\n"
            "print(*sorted(set(sys.modules) - before))",
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    loaded = process.stdout.split()
    assert "albert_keras.export.served_model" in loaded
    heavy = ("keras", "tf_keras", "tensorflow_text", "albert_keras.model", "albert_keras.layers")
    assert not [name for name in loaded if name.startswith(heavy)]


def test_a_folder_that_is_no_export_is_refused(tmp_path):
    with pytest.raises(ValueError, match="An export is a folder with saved_model.pb"):
        ask(tmp_path, TEXTS)
