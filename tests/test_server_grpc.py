"""The development server's gRPC, asked through the stubs that TensorFlow Serving publishes."""

import math

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("starlette", reason="needs the extra `serve`")

import grpc  # noqa: E402
from albert_keras.export.server import Limits, Models  # noqa: E402
from tensorflow_serving.apis import (  # noqa: E402
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    predict_pb2,
    regression_pb2,
)

from tests import served_models  # noqa: E402
from tests.running_server import RunningServer  # noqa: E402

pytestmark = pytest.mark.both_kerases

TEXTS = [b"a", b"", "Straße \U0001f600".encode(), b"broken \xff\xfe", b"a longer text"]
Code = grpc.StatusCode


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    served_models.save_labels(folder / "mail" / "2", scale=1.0)
    served_models.save_labels(folder / "mail" / "10", scale=0.01)
    served_models.save_choices(folder / "exam" / "1")
    return folder


@pytest.fixture(scope="module")
def server(folder):
    models = Models([folder / "mail", folder / "exam"])
    running = RunningServer(models, Limits(rows=8, request_bytes=1_000_000))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def services(server):
    with server.channel() as stubs:
        yield stubs


@pytest.fixture(scope="module")
def service(services):
    return services[0]


def asked(name="mail", signature="", version=None, output_filter=(), **inputs):
    request = predict_pb2.PredictRequest(output_filter=output_filter)
    request.model_spec.name, request.model_spec.signature_name = name, signature
    if version is not None:
        request.model_spec.version.value = version
    for key, values in inputs.items():
        dtype = tf.int32 if values and type(values[0]) is list and key == "token_ids" else tf.string
        request.inputs[key].CopyFrom(tf.make_tensor_proto(values, dtype))
    return request


def refusal(call, request, **options):
    with pytest.raises(grpc.RpcError) as error:
        call(request, **options)
    return error.value.code(), error.value.details()


def example(**features):
    values = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        for name, value in features.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=values))


# ---- answers ----


def test_an_answer_is_what_the_saved_model_gives_when_it_is_called(service, folder):
    signature = tf.saved_model.load(str(folder / "mail" / "10")).signatures["serving_default"]
    direct = signature(text=tf.constant(TEXTS))
    response = service.Predict(asked(text=TEXTS))
    assert set(response.outputs) == set(direct)
    for name, values in direct.items():
        proto = response.outputs[name]
        assert tf.as_dtype(proto.dtype) == values.dtype
        np.testing.assert_array_equal(tf.make_ndarray(proto), values.numpy())
    assert response.model_spec.name == "mail" and response.model_spec.version.value == 10
    assert response.model_spec.signature_name == "serving_default"


def test_a_filter_leaves_only_the_outputs_that_are_named(service):
    response = service.Predict(asked(text=[b"a"], output_filter=["score", "label"]))
    assert set(response.outputs) == {"score", "label"}
    code, message = refusal(service.Predict, asked(text=[b"a"], output_filter=["scores"]))
    assert code == Code.INVALID_ARGUMENT and "'score'" in message
    code, _ = refusal(service.Predict, asked(text=[b"a"], output_filter=["score", "score"]))
    assert code == Code.INVALID_ARGUMENT


def test_a_version_and_a_signature_may_be_named(service):
    [score] = tf.make_ndarray(service.Predict(asked(text=[b"a"], version=2)).outputs["score"])
    assert score == 0.5  # 1 - 1 / (1 + 1)
    response = service.Predict(asked(signature="ids", version=2, token_ids=[[1, 2, 3, 4]]))
    assert response.outputs["total_bytes"].string_val == [b"10"]
    assert response.model_spec.signature_name == "ids"


def test_no_rows_are_answered_with_no_rows(service):
    response = service.Predict(asked(text=[]))
    shapes = {name: tf.make_ndarray(proto).shape for name, proto in response.outputs.items()}
    assert shapes == {"label": (0,), "score": (0,), "probabilities": (0, 2), "logits": (0, 2)}
    assert tf.as_dtype(response.outputs["label"].dtype) == tf.string


def test_an_input_with_two_axes(service):
    options = [[b"a", b"bbb"], [b"cc", b""]]
    response = service.Predict(
        asked("exam", context=[b"", b""], question=[b"", b""], options=options)
    )
    assert response.outputs["option"].string_val == [b"bbb", b"cc"]


@pytest.mark.parametrize("texts", [[b"abc"], [b"a", b"abc"], []])
def test_the_last_value_of_a_tensor_may_stand_for_the_rows_behind_it(service, texts):
    request = asked(text=texts)
    request.inputs["text"].tensor_shape.dim[0].size = 4
    written_out = texts + (4 - len(texts)) * (texts[-1:] or [b""])
    short, long = (
        tf.make_ndarray(service.Predict(one).outputs["logits"])
        for one in (request, asked(text=written_out))
    )
    np.testing.assert_array_equal(short, long)


def test_classify_gives_classes_of_each_example(service):
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name, request.model_spec.signature_name = "mail", "classify"
    request.model_spec.version.value = 2
    request.input.example_list.examples.extend([example(text=b"aaa"), example(text=b"")])
    response = service.Classify(request)
    rows = [
        [(entry.label, entry.score) for entry in row.classes]
        for row in response.result.classifications
    ]
    short, long = served_models.LABELS
    assert rows == [[(short, 0.25), (long, 0.75)], [(short, 1.0), (long, 0.0)]]
    assert response.model_spec.signature_name == "classify"


def test_regress_gives_a_number_for_each_example_and_the_context_fills_in(service):
    request = regression_pb2.RegressionRequest()
    request.model_spec.name, request.model_spec.signature_name = "mail", "regress"
    listed = request.input.example_list_with_context
    listed.context.CopyFrom(example(text=b"four"))
    listed.examples.extend([example(), example(text=b"a")])
    values = [entry.value for entry in service.Regress(request).result.regressions]
    assert values == [4.0, 1.0]


def test_metadata_are_the_signatures_in_the_saved_model(service, folder):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "mail"
    response = service.GetModelMetadata(request)
    assert response.model_spec.version.value == 10
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(folder / "mail" / "10"))
    for name in ("serving_default", "classify", "regress", "ids"):
        assert signatures.signature_def[name] == loaded.signature_def[name]


def test_status_of_one_version_and_of_all(services):
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "mail"
    statuses = services[1].GetModelStatus(request).model_version_status
    assert [(status.version, status.state) for status in statuses] == [(10, 30), (2, 30)]
    request.model_spec.version.value = 2
    [status] = services[1].GetModelStatus(request).model_version_status
    assert status.version == 2 and status.status.error_code == 0
    request.model_spec.version.value = 3
    assert refusal(services[1].GetModelStatus, request)[0] == Code.NOT_FOUND


# ---- refusals ----


@pytest.mark.parametrize(
    "request_, code, rule",
    [
        (asked("post", text=[b"a"]), Code.NOT_FOUND, "['mail', 'exam']"),
        (asked(text=[b"a"], version=3), Code.NOT_FOUND, "[10, 2]"),
        (asked(text=[b"a"], signature="x"), Code.FAILED_PRECONDITION, "'classify'"),
        (asked(txt=[b"a"]), Code.INVALID_ARGUMENT, "takes the inputs ['text']"),
        (asked(), Code.INVALID_ARGUMENT, "takes the inputs ['text']"),
        (asked(text=b"a"), Code.INVALID_ARGUMENT, "shape (any)"),
        (asked(text=[[b"a"]]), Code.INVALID_ARGUMENT, "shape (any)"),
        (asked(text=[b"a"] * 9), Code.INVALID_ARGUMENT, "8 rows"),
        (asked(signature="ids", token_ids=[b"a"]), Code.INVALID_ARGUMENT, "int32"),
        (asked(signature="ids", token_ids=[[1, 2]]), Code.INVALID_ARGUMENT, "shape (any, 4)"),
        (
            asked("exam", context=[b""], question=[b"", b""], options=[[b""]]),
            Code.INVALID_ARGUMENT,
            "equally many rows",
        ),
    ],
)
def test_a_request_that_cannot_be_answered_is_refused_with_the_rule(service, request_, code, rule):
    received, message = refusal(service.Predict, request_)
    assert received == code and rule in message and "Received" in message


def changed(change):
    request = asked(text=[b"a", b"b"])
    change(request)
    return request


@pytest.mark.parametrize(
    "request_",
    [
        changed(lambda r: r.inputs["text"].string_val.append(b"c")),
        changed(lambda r: setattr(r.inputs["text"].tensor_shape.dim[0], "size", -1)),
        changed(lambda r: setattr(r.inputs["text"], "dtype", 0)),
        changed(lambda r: setattr(r.inputs["text"], "dtype", 9999)),
        changed(lambda r: setattr(r.inputs["text"], "tensor_content", b"ab")),
        changed(lambda r: setattr(r.model_spec, "version_label", "stable")),
    ],
)
def test_a_damaged_tensor_is_refused(service, request_):
    assert refusal(service.Predict, request_)[0] == Code.INVALID_ARGUMENT


@pytest.mark.parametrize("size", [1003, 2**40])
def test_a_few_bytes_cannot_become_gigabytes(service, size):
    request = asked(text=[b"", b"a" * 1000])
    request.inputs["text"].tensor_shape.dim[0].size = size
    code, message = refusal(service.Predict, request)
    assert code == Code.INVALID_ARGUMENT and "1,000,000 bytes" in message


def test_a_message_above_the_limit_is_refused_by_grpc(service):
    assert tf.make_ndarray(service.Predict(asked(text=[b"a" * 999_000])).outputs["score"]).shape
    code, message = refusal(service.Predict, asked(text=[b"a" * 1_000_001]))
    assert code == Code.RESOURCE_EXHAUSTED and "larger than max" in message


def test_bytes_that_are_no_message_are_the_clients_mistake(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        code, message = refusal(call, b"\xff\xff")
    assert code == Code.INVALID_ARGUMENT and "PredictRequest" in message


def test_methods_that_only_tensorflow_serving_has_are_unimplemented(service):
    request = inference_pb2.MultiInferenceRequest()
    assert refusal(service.MultiInference, request)[0] == Code.UNIMPLEMENTED


def test_other_metadata_are_refused(service):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["x"])
    request.model_spec.name = "mail"
    code, message = refusal(service.GetModelMetadata, request)
    assert code == Code.INVALID_ARGUMENT and "['signature_def']" in message


def test_classify_without_examples_or_by_another_signature_is_refused(service):
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name, request.model_spec.signature_name = "mail", "classify"
    code, message = refusal(service.Classify, request)
    assert code == Code.INVALID_ARGUMENT and "example" in message
    request.input.example_list.examples.append(example(text=b"a"))
    request.model_spec.signature_name = ""  # serving_default, as TensorFlow Serving has it
    code, message = refusal(service.Classify, request)
    assert code == Code.INVALID_ARGUMENT and "'classify'" in message


def test_a_nan_of_the_model_reaches_the_client(service, server):
    # log(0) of an empty text: minus infinity, which JSON has no number for.
    logits = tf.make_ndarray(service.Predict(asked(text=[b""])).outputs["logits"])
    assert logits[0, 1] == -math.inf
    [row] = server.post("mail:predict", {"instances": [""]})[1]["predictions"]
    assert row["logits"] == [0.0, -math.inf]
