"""classify, regress: the two methods whose rows are tf.Examples."""

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import classification_pb2, input_pb2, regression_pb2

from .models import Model, Signature
from .refusal import invalid
from .requests import Requests


async def classify(
    requests: Requests, model: Model, signature_name: str, rows: input_pb2.Input
) -> classification_pb2.ClassificationResult:
    """Classes with their scores for each tf.Example, by a signature that gives such.

    Raises:
        Refusal: it does not, or as of `Requests.run`.
    """
    signature = _signature(model, signature_name, {"classes", "scores"}, "classify")
    outputs = await requests.run(model, signature, {"inputs": _serialized(rows)})
    given = next(iter(outputs.values()))
    if any(values.shape != given.shape or values.ndim != 2 for values in outputs.values()):
        raise invalid(f"The signature {signature.name!r} gives no row of classes for an example.")
    classes = outputs.get("classes", np.full(given.shape, b"", object))
    scores = outputs.get("scores", np.zeros(given.shape, np.float32))
    result = classification_pb2.ClassificationResult()
    for labels, values in zip(classes, scores, strict=True):
        row = result.classifications.add()
        for label, score in zip(labels, values, strict=True):
            row.classes.add(label=label.decode(errors="replace"), score=score)
    return result


async def regress(
    requests: Requests, model: Model, signature_name: str, rows: input_pb2.Input
) -> regression_pb2.RegressionResult:
    """A number for each tf.Example, by a signature that gives one.

    Raises:
        Refusal: it does not, or as of `Requests.run`.
    """
    signature = _signature(model, signature_name, {"outputs"}, "regress")
    values = (await requests.run(model, signature, {"inputs": _serialized(rows)}))["outputs"]
    if values.size != len(values):
        raise invalid(f"The signature {signature.name!r} gives no single number for an example.")
    result = regression_pb2.RegressionResult()
    for value in values.reshape(-1):
        result.regressions.add(value=value)
    return result


def _signature(model: Model, name: str, outputs: set[str], usual: str) -> Signature:
    signature = model.signature(name)
    if set(signature.inputs) != {"inputs"} or not set(signature.outputs) <= outputs:
        raise invalid(
            f"This method takes a signature from 'inputs', tf.Examples, to {sorted(outputs)}. "
            f"Received: {signature.name!r} of {model.name!r}. Say signature_name {usual!r} where "
            f"the model has it; it has {sorted(model.signatures)}."
        )
    return signature


def _serialized(rows: input_pb2.Input) -> np.ndarray:
    if rows.WhichOneof("kind") == "example_list_with_context":
        listed = rows.example_list_with_context
        examples = []
        for example in listed.examples:
            # A feature of the example's own stands before that of all.
            merged = tf.train.Example()
            merged.CopyFrom(listed.context)
            merged.MergeFrom(example)
            examples.append(merged)
    else:
        examples = rows.example_list.examples
    if not examples:
        raise invalid("There must be an example. Received: none.")
    return np.array([example.SerializeToString() for example in examples], object)
