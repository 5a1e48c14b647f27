"""Asks a served model, by REST with the standard library alone or by gRPC.

    python examples/serving/client.py rest mail localhost:8501 text="Win a prize now!"
    python examples/serving/client.py grpc mail localhost:8500 text="Win a prize now!"
    python examples/serving/client.py rest exam localhost:8501 context="..." question="..." \\
        options="at home" options="on the train"

The server is TensorFlow Serving or `albert-keras serve`, which speak the same protocols. Copy
`ask_by_rest` or `ask_by_grpc` into your own program; they take and give a batch of rows. gRPC needs
`pip install tensorflow-serving-api`, which brings TensorFlow.
"""

import argparse
import json
import sys
import urllib.error
import urllib.parse
import urllib.request

TIMEOUT = 30  # seconds


def ask_by_rest(address, model, rows, signature="serving_default"):
    """The outputs of each row; a row is a dict from an input's name to a string, or to a list."""
    request = urllib.request.Request(
        f"http://{address}/v1/models/{urllib.parse.quote(model)}:predict",
        json.dumps({"signature_name": signature, "instances": rows}).encode(),
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            return json.load(response)["predictions"]
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{error.code}: {json.load(error)['error']}") from None


def ask_by_grpc(address, model, rows, signature="serving_default"):
    """The same by gRPC: less to read and write, and the client's deadline reaches the server."""
    import grpc
    import numpy as np
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model, signature
    for name in rows[0]:
        request.inputs[name].CopyFrom(tf.make_tensor_proto([row[name] for row in rows], tf.string))
    with grpc.insecure_channel(address) as channel:
        service = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        try:
            outputs = service.Predict(request, timeout=TIMEOUT).outputs
        except grpc.RpcError as error:
            raise RuntimeError(f"{error.code().name}: {error.details()}") from None
    decoded = np.vectorize(bytes.decode, otypes=[object])
    columns = {}
    for name, proto in outputs.items():
        values = tf.make_ndarray(proto)
        columns[name] = (decoded(values) if proto.dtype == tf.string else values).tolist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("protocol", choices=["rest", "grpc"])
    parser.add_argument("model", help="the name of the served folder")
    parser.add_argument("address", help="host:port")
    parser.add_argument("input", nargs="+", help="name=text; `options` once for each")
    parser.add_argument("--signature", default="serving_default")
    arguments = parser.parse_args()
    row = {}
    for assignment in arguments.input:
        name, equals, text = assignment.partition("=")
        if not equals:
            parser.error(f"an input is name=text, not {assignment!r}")
        if name == "options":
            row.setdefault(name, []).append(text)
        else:
            row[name] = text
    ask = ask_by_rest if arguments.protocol == "rest" else ask_by_grpc
    try:
        [answer] = ask(arguments.address, arguments.model, [row], arguments.signature)
    except (OSError, RuntimeError) as error:
        sys.exit(f"Error: {error}")
    print(json.dumps(answer, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
