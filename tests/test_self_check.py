"""Each way in which an export can be broken is found, and named."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from albert_keras.export.self_check import Question, check_export, compare
from albert_keras.export.serving_ops import serving_versions

from albert_keras.export import clean_process, self_check
from tests.small_tokenizer import small_tokenizer

pytestmark = pytest.mark.both_kerases

LABELS = [b"harbour", "Küche".encode(), b"dog"]
TABLE = np.random.default_rng(0).normal(0, 1, (400, 3)).astype("float32")
TEXTS = [b"The quick brown fox.", b"", b"It is 9,9 \x00 \xff", b"dog " * 30]
PYTHON_LOADERS = ["tf.saved_model.load", "TF1 session loader"]
C_LOADERS = ["TF C API"] if sys.platform == "linux" else []
LOADERS = PYTHON_LOADERS + C_LOADERS
TEXT = [tf.TensorSpec([None], tf.string, name="text")]


class Sums(tf.Module):
    """The rows of a table, summed over a text's pieces: a model that NumPy can work out as well."""

    def __init__(self, table=TABLE, labels=LABELS, **changes):
        super().__init__()
        self.tokenizer = small_tokenizer()
        self.table = tf.Variable(table)

        def answer(text):
            ids = self.tokenizer(text)
            logits = tf.reduce_sum(tf.gather(self.table, ids), axis=1)
            logits = tf.reshape(logits, [-1, 3])
            return {
                "logits": logits,
                "label": tf.gather(tf.constant(labels), tf.argmax(logits, axis=1)),
                "length": tf.cast(ids.row_lengths(), tf.int32),
                "never": tf.where(logits > 0, logits, -1e9),
            }

        def changed(change):
            return tf.function(lambda text: change(answer(text)), input_signature=TEXT)

        changes["serving_default"] = lambda outputs: outputs
        self.functions = {name: changed(change) for name, change in changes.items()}


def write(module, folder):
    tf.saved_model.save(module, str(folder), module.functions)
    return folder


def question(signature="serving_default", texts=TEXTS, decided=None, **changes):
    ids = [small_tokenizer().encode(text.decode(errors="replace")) for text in texts]
    logits = np.array([TABLE[row].sum(axis=0) for row in ids], "float32").reshape(-1, 3)
    outputs = {
        "logits": logits,
        "label": np.array([LABELS[best] for best in logits.argmax(axis=1)], object),
        "length": np.array([len(row) for row in ids], "int32"),
        "never": np.where(logits > 0, logits, -1e9).astype("float32"),
    }
    inputs = {"text": np.array(texts, object)}
    return Question(signature, inputs, {**outputs, **changes}, decided or {})


# ---- whole exports ----


def test_an_export_that_answers_alike_gets_a_report(tmp_path):
    folder = write(Sums(), tmp_path / "1")
    right = question().outputs["logits"]
    asked = [
        question(),
        question(texts=[]),
        Question("serving_default", {"text": np.array(TEXTS[:1], object)}, {}),
        # Not exactly: a fraction of the largest number.
        question(logits=right + np.float32(1e-5) * np.abs(right).max()),
    ]
    report = check_export(folder, asked)
    assert report["loaders"] == LOADERS and report["questions"] == 4
    assert report["largest_difference"] == pytest.approx(1e-5, rel=0.1)
    assert report["serving_versions"] == serving_versions()
    assert set(report["skipped"]) == {"TF C API"} - set(LOADERS)


def test_everything_that_is_broken_is_listed_by_loader_signature_and_question(tmp_path):
    def without(name):
        return lambda outputs: {key: value for key, value in outputs.items() if key != name}

    def but(name, function):
        return lambda outputs: {**outputs, name: function(outputs[name])}

    def refused(outputs):
        tf.debugging.assert_less(tf.size(outputs["length"]), 2, "one at a time")
        return outputs

    module = Sums(
        missing=without("label"),
        extra=lambda outputs: {**outputs, "more": outputs["length"]},
        nan=but("logits", lambda logits: logits / tf.cast(logits != logits[1], tf.float32)),
        label=but("label", tf.strings.upper),
        shape=but("logits", lambda logits: logits[:, :2]),
        dtype=but("length", lambda length: tf.cast(length, tf.float32)),
        number=but("length", lambda length: length + 1),
        few=but("never", lambda never: never + 1.0),
        refused=refused,
        unasked=without("label"),
    )
    names = [name for name in module.functions if name not in ("serving_default", "unasked")]
    asked = [question(), *map(question, names)]
    asked.append(question("refused", TEXTS[:1]))
    with pytest.raises(RuntimeError) as error:
        check_export(write(module, tmp_path / "1"), asked)
    message = str(error.value)
    assert "questions: none is of the signature unasked" in message
    numbers = {asked.signature: number for number, asked in list(enumerate(asked))[:-1]}
    expected = {
        "missing": "the outputs are ['length', 'logits', 'never'], expected ['label', ",
        "extra": "the outputs are ['label', 'length', 'logits', 'more', 'never'], expected",
        "nan": "logits is NaN at [1, 0]",
        "label": "label differs from the Keras model: at [",
        "shape": "logits is float32 of the shape (4, 2), expected float32 of the shape (4, 3)",
        "dtype": "length is float32 of the shape (4,), expected int32",
        "number": "length differs from the Keras model: at [0] ",
        "few": "never differs from the Keras model by ",
    }
    for loader in LOADERS:
        for signature, problem in expected.items():
            line = f"{loader}: question {numbers[signature]} of {signature}: {problem}"
            assert line in message, line
        [refusal] = [
            line
            for line in message.splitlines()
            if line.startswith(f"{loader}: question {numbers['refused']} of refused: ")
        ]
        assert f"question {len(asked) - 1} of refused" not in message
        assert f"{loader}: question 0 " not in message, "what is right is not listed"
        assert "Error" in refusal
    assert "one at a time" in message


def test_a_wrong_weight_and_a_wrong_order_of_labels_are_found(tmp_path):
    # The piece that the first text begins with.
    table, first = TABLE.copy(), small_tokenizer().encode(TEXTS[0].decode())[0]
    table[first, 2] += 0.01
    folder = write(Sums(table, LABELS[::-1]), tmp_path / "1")
    with pytest.raises(RuntimeError) as error:
        check_export(folder, [question()])
    for loader in LOADERS:
        start = f"{loader}: question 0 of serving_default: "
        assert f"{start}logits differs from the Keras model by 0.0" in str(error.value)
        assert f"{start}label differs from the Keras model: at [" in str(error.value)


@pytest.mark.skipif(not hasattr(tf.keras, "ops"), reason="the variables of Keras 2 are raw ones")
def test_the_variables_of_keras_3_are_found_by_all_loaders_but_one(tmp_path):
    class Trapped(tf.Module):
        def __init__(self):
            super().__init__()
            self.table = tf.keras.Variable(TABLE, name="table")
            self.functions = {
                "serving_default": tf.function(
                    lambda text: {"y": tf.gather(self.table.value, tf.strings.length(text))},
                    input_signature=TEXT,
                )
            }

    folder = write(Trapped(), tmp_path / "wrong")
    asked = Question("serving_default", {"text": np.array([b"abc"], object)}, {"y": TABLE[3:4]})
    with pytest.raises(RuntimeError) as error:
        check_export(folder, [asked])
    lines = [line for line in str(error.value).splitlines() if "question 0" in line]
    assert [line.split(":")[0] for line in lines] == LOADERS[1:]
    assert "Resource localhost/table/" in str(error.value)


def test_what_python_alone_could_run_is_found(tmp_path):
    module = Sums(
        python=lambda outputs: {
            "y": tf.py_function(lambda x: x, [outputs["length"]], tf.int32, name="y")
        }
    )
    asked = Question("python", {"text": np.array(TEXTS, object)}, {})
    with pytest.raises(RuntimeError) as error:
        check_export(write(module, tmp_path / "1"), [question(), asked])
    assert "graph: EagerPyFunc calls Python" in str(error.value)
    for loader in LOADERS:
        assert f"{loader}: question 1 of python: " in str(error.value)
        assert f"{loader}: question 0 " not in str(error.value)


@pytest.mark.skipif(not C_LOADERS, reason="it is skipped here anyway")
def test_elsewhere_than_on_linux_the_c_library_is_skipped_and_the_report_says_so(
    tmp_path, monkeypatch
):
    folder = write(Sums(), tmp_path / "1")
    monkeypatch.setattr(self_check.sys, "platform", "darwin")
    report = check_export(folder, [question()])
    assert report["loaders"] == PYTHON_LOADERS
    assert report["skipped"] == {"TF C API": "runs on Linux only, not on darwin"}


def test_a_process_that_ends_early_is_named(tmp_path, monkeypatch):
    folder = write(Sums(), tmp_path / "1")
    script = tmp_path / "ends.py"
    script.write_text("import sys; sys.exit('no memory')")
    monkeypatch.setattr(clean_process, "__file__", str(script))
    with pytest.raises(RuntimeError, match="process python: it ended with 1: no memory"):
        check_export(folder, [question()])


def test_a_process_that_has_another_library_is_no_proof(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import keras")
    (tmp_path / "keras.py").write_text("")
    asked, answered = tmp_path / "asked.npz", tmp_path / "answered.npz"
    clean_process.write_arrays(asked, {"signatures": np.array([], str)})
    subprocess.run(
        [sys.executable, "-P", clean_process.__file__, "c", str(tmp_path), asked, answered],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
    )
    problems = clean_process.read_arrays(answered)["problems"].tolist()
    assert "process: ['keras'] was imported, so nothing is proven without it" in problems


# ---- one answer ----


def test_strings_survive_the_way_to_the_processes(tmp_path):
    arrays = {
        "strings": np.array([[b"", b"\x00", b"a\x00\x00"], [b"\xff", b"a.", b"."]], object),
        "none": np.zeros([0, 3], object),
        "one": np.array(b"x", object),
        "numbers": np.arange(3),
    }
    clean_process.write_arrays(tmp_path / "x.npz", arrays)
    read = clean_process.read_arrays(tmp_path / "x.npz")
    assert set(read) == set(arrays)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype and read[name].shape == array.shape
        assert (read[name] == array).all()


def floats(*values):
    return np.array(values, "float32")


@pytest.mark.parametrize(
    "got,expected,difference",
    [
        # As a fraction of 1, or of the largest number.
        (floats(0.5, 0.25), floats(0.5, 0.250001), 1e-6),
        (floats(100.0, 0.005), floats(100.0, 0.0), 5e-5),
        # "Never" is compared with itself, and does not hide what stands beside it.
        (floats(-1e9, 0.5), floats(-1e9, 0.5), 0.0),
        (floats(-1e9, 0.5), floats(-1e9, 0.50001), 1e-5),
        (floats(-np.inf, 0.5), floats(-np.inf, 0.5), 0.0),
        (floats(), floats(), 0.0),
    ],
)
def test_numbers_that_are_near_enough_are_taken(got, expected, difference):
    problems, largest = compare({"x": got}, Question("s", {}, {"x": expected}))
    assert problems == [] and largest == pytest.approx(difference, rel=0.1)


@pytest.mark.parametrize(
    "got,expected,problem",
    [
        (
            floats(1.0, 2.0),
            floats(1.0, 2.001),
            "x differs .* by 0.0005 of 2: at .1. 2.0, exp.* 2.0",
        ),
        (
            floats(-1e9, 0.5),
            floats(-1e9, 0.6),
            "x differs .* by 0.1 of 1: at .1. 0.5, exp.* 0.6",
        ),
        (floats(-1e9, 0.5), floats(-2e9, 0.5), "x differs .* by 0.5 of 1: at .0."),
        (floats(np.inf), floats(1.0), "x differs .* by inf of 1"),
        (floats(1.0), floats(np.inf), "x differs .* by inf of 1"),
        (floats(np.inf), floats(-np.inf), "x differs .* by inf of 1"),
        (floats(np.nan), floats(1.0), "x is NaN at .0."),
        (floats(1.0), floats(np.nan), "x differs .* by inf of 1"),
        (floats(1.0), np.array([1]), "x is float32 of the shape .1,., expected int64"),
        (
            np.array([b"a"], object),
            np.array([b"b"], object),
            "x differs .* at .0. b'a', .* b'b'",
        ),
        (np.array([True]), np.array([False]), "x differs .* at .0. True, expected False"),
    ],
)
def test_others_are_not(got, expected, problem):
    problems, _ = compare({"x": got}, Question("s", {}, {"x": expected}))
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(" ".join(problems))


def test_nan_is_found_where_nothing_is_expected():
    assert compare({"x": floats(1.0, np.nan)}, Question("s", {}, {})) == (["x is NaN at [1]"], 0.0)
    assert compare({"x": floats(1.0)}, Question("s", {}, {})) == ([], 0.0)


def test_what_is_a_tie_may_be_another_answer():
    decided = np.array([True, False])
    asked = Question("s", {}, {"x": np.array([3, 4], "int32")}, {"x": decided})
    assert compare({"x": np.array([3, 5], "int32")}, asked) == ([], 0.0)
    problems, _ = compare({"x": np.array([2, 4], "int32")}, asked)
    assert problems == ["x differs from the Keras model: at [0] 2, expected 3"]
