"""A model for a device answers as the Keras model, run by the device's own libraries."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from albert_keras.export.edge import FORMATS, accuracy, edge_folder, export_edge, load_edge

from albert_keras.model import build_albert, build_pretrainer
from albert_keras.task_models import (
    build_answerable_span_predictor,
    build_classifier,
    build_multiple_choice,
    build_span_predictor,
)
from tests.small_tokenizer import VOCAB_SIZE, small_tokenizer

pytest.importorskip("ai_edge_litert")
pytest.importorskip("onnxruntime")
pytest.importorskip("tf2onnx")

pytestmark = [
    pytest.mark.both_kerases,
    # From inside the converters.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

ROOT = Path(__file__).parents[1]
LABELS = ["harbour", "Küche", "dog"]
BUILDERS = {
    "embed": lambda encoder: encoder,
    "classify": lambda encoder: build_classifier(encoder, len(LABELS)),
    "regress": lambda encoder: build_classifier(encoder, 1),
    "answer": build_span_predictor,
    "answer, SQuAD 2.0": build_answerable_span_predictor,
    "choose": build_multiple_choice,
}


def model_of(kind, seed=0, **config):
    """A small model whose outputs differ from text to text."""
    model = BUILDERS[kind](build_albert("tiny", vocab_size=VOCAB_SIZE, **config))
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        if "LayerNorm" not in getattr(weight, "path", weight.name):
            weight.assign(rng.normal(0, 0.2, tuple(weight.shape)).astype("float32"))
    return model


def random_rows(kind, batch, length, seed=0):
    """Rows of random pieces, the second half segment 1 and the last three of every second row
    padding."""
    shape = (batch, 4, length) if kind == "choose" else (batch, length)
    rng = np.random.default_rng(seed)
    rows = {"token_ids": rng.integers(5, VOCAB_SIZE, shape).astype(np.int32)}
    rows["segment_ids"] = np.zeros(shape, np.int32)
    rows["segment_ids"][..., length // 2 :] = 1
    rows["padding_mask"] = np.ones(shape, np.int32)
    rows["padding_mask"][::2, ..., -3:] = 0
    return rows


def exported(kind, folder, format, **settings):
    model = model_of(kind)
    labels = LABELS if kind == "classify" else None
    return model, export_edge(
        model, small_tokenizer(), folder, format=format, labels=labels, **settings
    )


# ---- what is written ----

# Every kind by each of the two converters, and the other two formats with one kind.
CASES = [(kind, format) for kind in BUILDERS for format in ("litert-int8", "onnx")]
CASES += [("classify", "litert-fp16"), ("answer", "onnx-int8")]
# As a fraction of an output's largest value; measured 0.02, 1e-3 and 1e-6.
EXACT = {"litert-int8": 0.08, "onnx-int8": 0.08, "litert-fp16": 5e-3, "onnx": 2e-5}


@pytest.mark.parametrize("kind,format", CASES)
def test_the_file_answers_as_the_keras_model_for_batches_of_any_size(kind, format, tmp_path):
    model, folder = exported(kind, tmp_path / "phone", format)
    run, metadata = load_edge(folder, threads=1)
    assert metadata["kind"] == kind.partition(",")[0]
    answers, expected = [], []
    for batch, length in ((1, 5), (3, 11), (2, 64), (5, 7)):
        rows = random_rows(kind, batch, length)
        answers.append(run(rows))
        outputs = model(rows, training=False)
        expected.append({name: value.numpy() for name, value in outputs.items()})
        assert set(answers[-1]) == set(expected[-1]) == set(metadata["outputs"])
    if "start_positions" in expected[0]:
        same = [
            got["start_positions"][:, 0] == want["start_positions"][:, 0]
            for got, want in zip(answers, expected, strict=True)
        ]
        assert np.mean(np.concatenate(same)) >= (1.0 if format == "onnx" else 0.7)
    for name in expected[0]:
        if name in ("start_positions", "end_positions", "end_log_probs"):
            continue  # places, and scores that belong to them
        values = [outputs[name] for outputs in expected]
        scale = max(np.abs(some[np.abs(some) < 1e3]).max() for some in values)
        for got, want in zip(answers, values, strict=True):
            tolerance = {"atol": EXACT[format] * scale, "rtol": 1e-3, "err_msg": name}
            np.testing.assert_allclose(got[name], want, **tolerance)


def test_the_folder_says_what_is_in_it(tmp_path):
    model, folder = exported("classify", tmp_path / "phone", "litert-int8", max_length=24)
    files = {path.name for path in folder.iterdir()}
    assert files == {"model.tflite", "spiece.model", "tokenizer_config.json", "metadata.json"}
    assert [path.name for path in tmp_path.iterdir()] == ["phone"]
    metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    assert metadata["kind"] == "classify" and metadata["labels"] == LABELS
    assert metadata["format"] == "litert-int8" and metadata["max_length"] == 24
    assert metadata["inputs"]["token_ids"] == ["int32", [None, None]]
    assert metadata["outputs"] == {"logits": ["float32", [None, 3]]}
    assert metadata["parameters"] == model.count_params()
    assert metadata["bytes"]["model.tflite"] == (folder / "model.tflite").stat().st_size
    assert metadata["vocabulary_sha256"] == small_tokenizer().sha256
    assert 0 < metadata["accuracy"]["largest_difference"]["logits"] < 0.1
    assert metadata["accuracy"]["equal_clear_labels"] == 1.0
    vocabulary = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    text = "Ça va? The quick brown fox."
    assert vocabulary.encode(text) == small_tokenizer().encode(text)


@pytest.mark.parametrize("format", FORMATS)
def test_layers_that_share_weights_share_them_in_the_file(format):
    sizes = {}
    for layers in (2, 6):
        model = model_of(
            "classify", hidden_size=128, intermediate_size=512, num_hidden_layers=layers
        )
        function = edge_folder.model_function(model)
        sizes[layers] = len(edge_folder._converted(model, function, format))
    one_matrix = 128 * 512 * FORMATS[format].weight_bytes
    # Four layers more are some thousand bytes of ops; one copied layer is three matrices.
    a_layer = (sizes[6] - sizes[2]) / 4
    assert 0 < a_layer < one_matrix / 2


# ---- what is not ----


def converted_otherwise(monkeypatch, change):
    """Lets the converters see `change(model)` in the place of the model's function."""
    convert = edge_folder._converted

    def convert_changed(model, function, format):
        other = change(model)
        return convert(other, edge_folder.model_function(other), format)

    monkeypatch.setattr(edge_folder, "_converted", convert_changed)


def ignoring(name, value):
    """A change: the model as if one of its inputs were always `value`."""

    def change(model):
        inputs = dict(model.input)
        seen = {**inputs, name: _Constant(value)(inputs[name])}
        return tf.keras.Model(inputs, model(seen))

    return change


class _Constant(tf.keras.layers.Layer):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def call(self, rows):
        return 0 * rows + self.value


CHANGES = {
    "other weights": lambda model: model_of("classify", seed=1),
    "no padding mask": ignoring("padding_mask", 1),
    "no segments": ignoring("segment_ids", 0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_answers_otherwise_is_not_written(change, monkeypatch, tmp_path):
    converted_otherwise(monkeypatch, CHANGES[change])
    with pytest.raises(RuntimeError, match="(?s)was not written.*`logits` differs by"):
        exported("classify", tmp_path / "new" / "phone", "litert-int8", pair=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_with_copies_of_shared_weights_is_not_written(monkeypatch, tmp_path):
    convert = edge_folder._converted
    monkeypatch.setattr(
        edge_folder, "_converted", lambda *arguments: convert(*arguments) + bytes(400_000)
    )
    with pytest.raises(RuntimeError, match="has copied weights"):
        exported("classify", tmp_path / "phone", "litert-int8")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_broken_is_not_written(monkeypatch, tmp_path):
    convert = edge_folder._converted
    monkeypatch.setattr(edge_folder, "_converted", lambda *arguments: convert(*arguments)[:30_000])
    with pytest.raises(RuntimeError, match="(?s)was not written.*model.onnx cannot be loaded"):
        exported("classify", tmp_path / "phone", "onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file", ["model.tflite", "model.onnx", "metadata.json"])
def test_loading_what_is_damaged_names_the_file(file, tmp_path):
    fields = {"format": "onnx", "file": file if file.startswith("model") else "model.onnx"}
    (tmp_path / "metadata.json").write_text(json.dumps(fields), encoding="utf-8")
    (tmp_path / file).write_bytes(b"{" * 100)
    with pytest.raises(ValueError, match=file):
        load_edge(tmp_path)


def answers_of(model):
    return lambda batch: {k: v.numpy() for k, v in model(dict(batch), training=False).items()}


def test_the_accuracy_check_names_what_is_wrong():
    model = model_of("answer")
    batches = accuracy.check_batches(model, small_tokenizer(), 48, pair=True)[-6:]
    right = answers_of(model)

    def check(change):
        return accuracy.check_accuracy(
            model, lambda batch: change(right(batch)), batches, tolerance=0.1, agreement=0.95
        )

    def shifted(outputs):
        return {**outputs, "end_logits": outputs["end_logits"] + 100}

    def reversed_(outputs):
        return {name: values[:, ::-1] for name, values in outputs.items()}

    report = check(lambda outputs: outputs)
    assert report["largest_difference"] == {"start_logits": 0, "end_logits": 0}
    assert report["equal_labels"] == 1.0
    with pytest.raises(RuntimeError, match="^`end_logits` differs by .* 0.1 is the limit.$"):
        check(shifted)
    with pytest.raises(RuntimeError, match="Of the labels that are clear 0"):
        check(reversed_)
    with pytest.raises(RuntimeError, match="`start_logits` differs by inf"):
        check(lambda outputs: {**outputs, "start_logits": outputs["start_logits"] * np.nan})
    with pytest.raises(RuntimeError, match="and the Keras model {'end_logits'"):
        check(lambda outputs: {"start_logits": outputs["start_logits"]})
    with pytest.raises(RuntimeError, match="cannot run a batch of .*: boom"):
        check(lambda outputs: (_ for _ in ()).throw(OSError("boom")))


@pytest.mark.parametrize("kind", ["embed", "choose"])
def test_the_accuracy_check_asks_rows_alone_together_and_as_long_as_they_get(kind):
    model = model_of(kind)
    batches = accuracy.check_batches(model, small_tokenizer(), 48, pair=True)
    shapes = [batch["token_ids"].shape for batch in batches]
    assert {shape[0] for shape in shapes[:-1]} == {1} and shapes[-1][0] > 8
    assert max(shape[-1] for shape in shapes) == 48 and min(shape[-1] for shape in shapes) < 40
    assert {shape[1:-1] for shape in shapes} == (
        {(accuracy.CHOICES,)} if kind == "choose" else {()}
    )
    together = batches[-1]
    assert 0 < together["segment_ids"].mean() < together["padding_mask"].mean() < 1


MISTAKES = {
    "must be one of litert-int8, .*Received: 'tflite'": ("classify", {"format": "tflite"}),
    "must not exist yet": ("classify", {"folder": "."}),
    "needs `labels`": ("classify", {"labels": None}),
    "A regression has no `labels`": ("regress", {"labels": ["a"]}),
    "`labels` belong to a classifier": ("embed", {"labels": ["a"]}),
    "`pair` is for classifiers": ("answer", {"pair": True, "labels": None}),
    "`max_length` must lie between": ("classify", {"max_length": 600}),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_is_refused_before_anything_is_converted(message, tmp_path):
    kind, settings = MISTAKES[message]
    settings = {"labels": LABELS if kind == "classify" else None, **settings}
    folder = tmp_path / settings.pop("folder", "phone")
    with pytest.raises(ValueError, match=message):
        export_edge(model_of(kind), small_tokenizer(), folder, **settings)


def test_models_that_cannot_be_exported_are_refused_by_name(tmp_path):
    encoder = build_albert("tiny", vocab_size=VOCAB_SIZE)
    all_layers = build_albert("tiny", vocab_size=VOCAB_SIZE, output_all_layers=True)
    with pytest.raises(ValueError, match="Received: a pretrainer"):
        export_edge(build_pretrainer(encoder), small_tokenizer(), tmp_path / "phone")
    with pytest.raises(ValueError, match="layer_outputs"):
        export_edge(all_layers, small_tokenizer(), tmp_path / "phone")


def test_without_the_extra_the_error_names_it(tmp_path):
    code = (
        "import sys; sys.modules['ai_edge_litert'] = None\n"
        "from albert_keras.export.edge import litert"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 1 and "pip install 'albert-keras[edge]'" in process.stderr


# ---- from raw text, without TensorFlow ----

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "Ça va? 1,204 metres",
    "",
    "a letter " * 99,
]


@pytest.mark.parametrize("format", ["litert-int8", "onnx"])
@pytest.mark.parametrize("pair", [False, True])
def test_the_example_labels_raw_text_without_tensorflow(format, pair, tmp_path):
    model, folder = exported("classify", tmp_path / "phone", format, pair=pair, max_length=48)
    code = (
        "import sys, runpy\n"
        "for name in 'tensorflow keras tf_keras albert_keras'.split(): sys.modules[name] = None\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    script = str(ROOT / "examples" / "edge_classify.py")
    process = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.argv = sys.argv[1:]\n{code}", script, str(folder)]
        + TEXTS,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    answers = [line.split("\t") for line in process.stdout.splitlines()]
    tokenizer = small_tokenizer()
    examples = [TEXTS[:2], TEXTS[2:]] if pair else [[text] for text in TEXTS]
    assert [answer[2] for answer in answers] == [texts[0] for texts in examples]
    for (label, probability, _), texts in zip(answers, examples, strict=True):
        from albert_keras.text.packing import pack_texts

        columns = [tf.constant([text]) for text in texts]
        rows = pack_texts(columns[0], tokenizer, 48, *columns[1:])
        expected = tf.nn.softmax(model(rows, training=False)["logits"]).numpy()[0]
        assert label == LABELS[expected.argmax()] or np.ptp(np.sort(expected)[-2:]) < 0.05
        assert float(probability) == pytest.approx(expected.max(), abs=0.05)


def test_the_example_takes_an_argument_that_is_not_utf8(tmp_path):
    _, folder = exported("classify", tmp_path / "phone", "onnx", max_length=48)
    script = str(ROOT / "examples" / "edge_classify.py")
    texts = [b"caf\xe9 au lait", "caf\ufffd au lait".encode()]
    process = subprocess.run([sys.executable, script, str(folder), *texts], capture_output=True)
    assert process.returncode == 0, process.stderr
    broken, repaired = process.stdout.decode().splitlines()
    assert broken == repaired


def test_the_example_cuts_numbers_as_training_does(data_folder):
    example = runpy.run_path(str(ROOT / "examples" / "edge_classify.py"))
    from albert_keras.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(data_folder / "vocabulary" / "30k-clean.model")
    vocabulary = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_bytes)
    for text in ("In 1999, 21,029 or 9,9", "the 1,000,000th, 12,", "Ça 2,5, va"):
        assert example["pieces"](vocabulary, text) == tokenizer.encode(text), text
