"""A graph that some TensorFlow Serving would refuse is found by its ops."""

import pytest
import tensorflow as tf
from albert_keras.export.serving_ops import (
    graph_problems,
    ops_in,
    read_saved_model,
    serving_versions,
)
from tensorflow.core.protobuf import saved_model_pb2

from tests.small_tokenizer import small_tokenizer

pytestmark = pytest.mark.both_kerases

NUMBERS = tf.TensorSpec([None], tf.float32, name="x")
STRINGS = tf.TensorSpec([None], tf.string, name="text")


def graph_of(function, spec, folder, **settings):
    """The SavedModel of one function."""
    module = tf.Module()
    module.tokenizer = small_tokenizer()
    module.answer = tf.function(function, input_signature=[spec], **settings)
    tf.saved_model.save(module, str(folder), {"serving_default": module.answer})
    return read_saved_model(folder)


def saved_model_of(graph):
    saved_model = saved_model_pb2.SavedModel()
    saved_model.meta_graphs.add().graph_def.CopyFrom(graph)
    return saved_model


def test_a_graph_of_what_every_server_has_is_fine(tmp_path):
    tokenizer = small_tokenizer()
    graph = graph_of(lambda text: {"ids": tokenizer(text).to_tensor()}, STRINGS, tmp_path / "x")
    assert graph_problems(graph) == []
    assert {"SentencepieceOp", "SentencepieceTokenizeOp", "RaggedTensorToTensor"} <= ops_in(graph)
    assert not {op for op in ops_in(graph) if op.startswith("__inference")}


def python(x):
    return {"y": tf.py_function(lambda x: x + 1, [x], tf.float32)}


def numpy(x):
    return {"y": tf.numpy_function(lambda x: x + 1, [x], tf.float32)}


def on_a_gpu(x):
    with tf.device("/GPU:0"):
        return {"y": x + 1}


def on_another_machine(x):
    with tf.device("/job:worker/task:0/device:CPU:0"):
        return {"y": x + 1}


def on_the_cpu(x):
    with tf.device("/CPU:0"):
        return {"y": x + 1}


def in_a_branch(x):
    # A function that a function calls.
    return {
        "y": tf.cond(
            tf.size(x) > 3,
            lambda: tf.raw_ops.FFTND(input=tf.cast(x, tf.complex64), fft_length=[2], axes=[0]),
            lambda: tf.cast(x, tf.complex64),
        )
    }


def decoded(text):
    return {"y": tf.raw_ops.DecodeWebP(contents=text[0], channels=3)}


def growing(x):
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True)
    return {"y": array.write(0, x[0]).stack()}


def fixed(x):
    return {"y": tf.TensorArray(tf.float32, 1).write(0, x[0]).stack()}


def scattered(x):
    # An attribute of 2.18, at its default, which is not saved.
    return {"y": tf.scatter_nd([[0]], x[:1], [3])}


@pytest.mark.parametrize(
    "function,spec,problems",
    [
        (python, NUMBERS, ["EagerPyFunc calls Python, which TensorFlow Serving does not have"]),
        (numpy, NUMBERS, ["PyFunc calls Python, which TensorFlow Serving does not have"]),
        (on_a_gpu, NUMBERS, ["AddV2 is pinned to the device /device:GPU:0"]),
        (
            on_another_machine,
            NUMBERS,
            ["AddV2 is pinned to the device /job:worker/task:0/device:CPU:0"],
        ),
        (on_the_cpu, NUMBERS, []),
        (in_a_branch, NUMBERS, ["TensorFlow Serving 2.12 to 2.14 has no op FFTND"]),
        (decoded, STRINGS, ["TensorFlow Serving 2.12 to 2.19 has no op DecodeWebP"]),
        (
            growing,
            NUMBERS,
            [
                "TensorListSetItem of TensorFlow Serving 2.12 has no "
                "resize_if_index_out_of_bounds, and would do something else"
            ],
        ),
        (fixed, NUMBERS, []),
        (scattered, NUMBERS, []),
    ],
)
def test_what_a_server_would_refuse_is_found(tmp_path, function, spec, problems):
    found = graph_problems(graph_of(function, spec, tmp_path / "x"))
    # The constants beside a pinned op are pinned as well.
    found = [problem for problem in found if "Const is pinned" not in problem]
    assert found == [f"graph: {problem}" for problem in problems]


def test_an_op_of_the_newest_tensorflow_is_found(tmp_path):
    if not hasattr(tf.raw_ops, "DecodeJxl"):
        pytest.skip("this TensorFlow has none that is as new")

    def newest(text):
        return {"y": tf.raw_ops.DecodeJxl(contents=text[0])}

    assert graph_problems(graph_of(newest, STRINGS, tmp_path / "x")) == [
        "graph: TensorFlow Serving 2.12 to 2.20 has no op DecodeJxl"
    ]


def test_an_op_of_a_newer_tensorflow_text_than_servers_have_is_found(tmp_path):
    import tensorflow_text as tf_text

    def trimmed(text):
        pieces = tf.strings.split(text)
        [trimmed] = tf_text.RoundRobinTrimmer(3).trim([pieces])
        return {"y": trimmed.to_tensor()}

    assert graph_problems(graph_of(trimmed, STRINGS, tmp_path / "x")) == [
        "graph: TensorFlow Serving 2.12 to 2.19 has no op TFText>RoundRobinTrim"
    ]


def test_an_op_of_nobody_is_found(tmp_path):
    graph = graph_of(fixed, NUMBERS, tmp_path / "x")
    graph.meta_graphs[0].graph_def.node.add(name="x", op="Own>Op")
    [problem] = graph_problems(graph)
    assert problem == (
        f"graph: TensorFlow Serving 2.12 to {serving_versions()[-1]} has no op Own>Op"
    )


def test_a_function_that_must_be_compiled_is_found(tmp_path):
    graph = graph_of(lambda x: {"y": x + 1}, NUMBERS, tmp_path / "x", jit_compile=True)
    assert graph_problems(graph) == [
        "graph: a function must be compiled with XLA (jit_compile=True)"
    ]


def test_a_damaged_graph_is_named(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff\xff")
    with pytest.raises(RuntimeError, match="graph: saved_model.pb is damaged"):
        read_saved_model(tmp_path)


def test_the_versions_are_all_from_2_12_to_the_installed_one():
    newest = int(tf.__version__.split(".")[1])
    assert serving_versions()[: newest - 11] == [f"2.{minor}" for minor in range(12, newest + 1)]


def test_the_installed_tensorflow_has_the_ops_that_the_file_says():
    # Of another origin than the file: what Python's TensorFlow offers.
    version = ".".join(tf.__version__.split(".")[:2])
    graph = tf.compat.v1.GraphDef()
    offered = [name for name in dir(tf.raw_ops) if name[0].isupper()]
    for name in offered:
        graph.node.add(name=name, op=name)
    lacking = [
        problem
        for problem in graph_problems(saved_model_of(graph))
        if problem.split(" has no op ")[0].endswith(version)
    ]
    assert len(offered) > 1000 and lacking == []
