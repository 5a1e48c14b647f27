"""TensorFlow's C library runs a SavedModel in a process that has no TensorFlow of Python."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.export import c_loader, clean_process
from albert_keras.text.sentencepiece import text_package
from tests.small_tokenizer import small_tokenizer

pytestmark = [
    pytest.mark.both_kerases,
    pytest.mark.skipif(sys.platform != "linux", reason="the library of Linux is looked for"),
]

TENSORFLOW = Path(tf.__file__).parent
KERNELS = text_package() / "python" / "ops" / "_sentencepiece_tokenizer.so"
DTYPES = ["float32", "float64", "int32", "int64", "bool"]
# Both kinds of TensorFlow's strings, those of up to 22 bytes and those on the heap.
STRINGS = np.array(
    [[b"", b"\x00", b"a\x00\x00"], [b"b" * 22, b"c" * 23, "Über \U0001f600 ".encode() * 1000]],
    object,
)

# What the process does; `questions` and `answers` are files of clean_process.
PROGRAM = """
import json, runpy, sys
questions, answers, loader, exchange, tensorflow, folder, signature, *kernels = sys.argv[1:]
loader, exchange = runpy.run_path(loader), runpy.run_path(exchange)
answer = loader["CLoader"](loader["CLibrary"](tensorflow, kernels), folder)
for times in range(2):
    outputs = answer(signature, exchange["read_arrays"](questions))
exchange["write_arrays"](answers, outputs)
assert not [name for name in sys.modules if name.split(".")[0] in ("tensorflow", "keras")]
"""


class Everything(tf.Module):
    """A signature of all dtypes, and one of a tokenizer and a variable."""

    def __init__(self):
        super().__init__()
        self.tokenizer = small_tokenizer()
        self.shift = tf.Variable(100)

    @tf.function(
        input_signature=[
            *(tf.TensorSpec([None, 3], dtype, name=dtype) for dtype in DTYPES),
            tf.TensorSpec([None, 3], tf.string, name="string"),
        ]
    )
    def same(self, *tensors):
        outputs = {
            f"{name}_out": tf.identity(tensor)
            for name, tensor in zip([*DTYPES, "string"], tensors, strict=True)
        }
        return {**outputs, "size": tf.size(tensors[-1])}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def pieces(self, text):
        tf.debugging.assert_less(tf.size(text), 3, "at most two")
        ids = self.tokenizer(text)
        return {"ids": ids.to_tensor(-1) + self.shift, "lengths": ids.row_lengths()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("everything"))
    module = Everything()
    tf.saved_model.save(module, folder, {"same": module.same, "pieces": module.pieces})
    return folder


@pytest.fixture
def run(folder, tmp_path):
    def run(signature, inputs, kernels=(KERNELS,), tensorflow=TENSORFLOW, folder=folder):
        clean_process.write_arrays(tmp_path / "asked.npz", inputs)
        process = subprocess.run(
            [
                *(sys.executable, "-P", "-c", PROGRAM, tmp_path / "asked.npz"),
                *(tmp_path / "answered.npz", c_loader.__file__, clean_process.__file__),
                *(tensorflow, folder, signature, *kernels),
            ],
            capture_output=True,
            text=True,
        )
        if process.returncode != 0:
            raise RuntimeError(process.stderr)
        return clean_process.read_arrays(tmp_path / "answered.npz")

    return run


@pytest.mark.parametrize("rows", [2, 0])
def test_every_dtype_goes_in_and_comes_out(run, rows):
    rng = np.random.default_rng(0)
    inputs = {dtype: rng.normal(0, 3, (2, 3)).astype(dtype)[:rows] for dtype in DTYPES}
    inputs["string"] = STRINGS[:rows]
    outputs = run("same", inputs)
    assert outputs.pop("size") == rows * 3
    assert set(outputs) == {f"{name}_out" for name in inputs}
    for name, array in inputs.items():
        assert outputs[f"{name}_out"].dtype == array.dtype, name
        assert outputs[f"{name}_out"].shape == array.shape == (rows, 3), name
        assert (outputs[f"{name}_out"] == array).all(), name


def test_sentencepiece_needs_its_kernels_only(run):
    texts = ["The quick brown fox.", "Ça va?"]
    outputs = run("pieces", {"text": np.array([text.encode() for text in texts], object)})
    for text, row, length in zip(texts, outputs["ids"], outputs["lengths"], strict=True):
        assert (row[:length] - 100).tolist() == small_tokenizer().encode(text)
        assert (row[length:] == 99).all()


def test_what_fails_says_why(run, tmp_path, folder):
    three = {"text": np.array([b"a", b"b", b"c"], object)}
    with pytest.raises(RuntimeError, match="at most two"):
        run("pieces", three)
    with pytest.raises(RuntimeError, match="Op type not registered 'Sentencepiece"):
        run("pieces", three, kernels=())
    with pytest.raises(RuntimeError, match="other.so: cannot open shared object file"):
        run("pieces", three, kernels=[tmp_path / "other.so"])
    with pytest.raises(RuntimeError, match="Could not find SavedModel"):
        run("pieces", three, folder=tmp_path / "none")
    with pytest.raises(RuntimeError, match="KeyError: 'other'"):
        run("other", three)


def test_signatures_are_read_as_protocol_buffers_read_them(folder):
    from tensorflow.core.protobuf import saved_model_pb2

    data = Path(folder, "saved_model.pb").read_bytes()
    [meta_graph] = saved_model_pb2.SavedModel.FromString(data).meta_graphs
    expected = {
        name: tuple(
            {key: info.name for key, info in tensors.items()}
            for tensors in (signature.inputs, signature.outputs)
        )
        for name, signature in meta_graph.signature_def.items()
    }
    assert {"same", "pieces"} < set(expected)
    assert c_loader._signatures(meta_graph.SerializeToString()) == expected
