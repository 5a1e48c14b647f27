"""The requests that a server asks itself: read back as the server reads them, and answered."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from albert_keras.export.self_check import Question
from albert_keras.export.warm_up import write_warm_up

pytestmark = pytest.mark.both_kerases

QUESTIONS = [
    Question("serving_default", {"text": np.array([b"a\x00", b"", b"\xff"], object)}, {}),
    Question("serving_default", {"text": np.array([], object)}, {}),
    Question("ids", {"ids": np.arange(6, dtype=np.int32).reshape(2, 3)}, {}),
    Question("options", {"options": np.array([[b"a", b""], [b"b", b"c"]], object)}, {}),
]


class Module(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def lengths(self, text):
        return {"length": tf.strings.length(text)}

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.int32, name="ids")])
    def sums(self, ids):
        return {"sum": tf.reduce_sum(ids, axis=1)}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.string, name="options")])
    def joined(self, options):
        return {"joined": tf.strings.reduce_join(options, axis=1)}


@pytest.fixture
def folder(tmp_path):
    module = Module()
    signatures = {
        "serving_default": module.lengths,
        "ids": module.sums,
        "options": module.joined,
    }
    tf.saved_model.save(module, str(tmp_path / "1"), signatures)
    return tmp_path / "1"


def test_each_request_is_read_back_and_answered(folder):
    from tensorflow_serving.apis import prediction_log_pb2

    path = write_warm_up(folder, QUESTIONS)
    assert path == folder / "assets.extra" / "tf_serving_warmup_requests"
    signatures = tf.saved_model.load(str(folder)).signatures
    answers = []
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        log = prediction_log_pb2.PredictionLog.FromString(record)
        assert log.WhichOneof("log_type") == "predict_log"
        request = log.predict_log.request
        inputs = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
        signature = signatures[request.model_spec.signature_name]
        tensors = {
            name: tf.constant(array.tolist(), spec.dtype, array.shape)
            for (name, array), spec in zip(
                inputs.items(), signature.structured_input_signature[1].values(), strict=True
            )
        }
        answers += [value.numpy().tolist() for value in signature(**tensors).values()]
    assert answers == [[2, 0, 1], [], [3, 12], [b"a", b"bc"]]


@pytest.mark.parametrize("total", [0, 1001])
def test_as_many_as_a_server_reads_are_taken(folder, total):
    with pytest.raises(ValueError, match=f"must be 1 to 1000. Received: {total}"):
        write_warm_up(folder, QUESTIONS[:1] * total)
    assert not (folder / "assets.extra").exists()


def test_the_protocol_buffers_are_loaded_when_they_are_needed():
    code = "import sys, albert_keras.export.warm_up; assert 'tensorflow_serving' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
