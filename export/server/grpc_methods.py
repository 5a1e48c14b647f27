"""The methods of TensorFlow Serving's PredictionService and ModelService, by gRPC."""

import math
from collections.abc import Awaitable, Callable

import grpc
import tensorflow as tf
from google.protobuf import message
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    predict_pb2,
    regression_pb2,
)

from albert_keras.served_folder import SIGNATURE

from .examples import classify, regress
from .models import Model, Models
from .refusal import Refusal, invalid
from .requests import Requests

METADATA_FIELD = "signature_def"


class GrpcMethods:
    """What a gRPC server answers; a method that is not here is UNIMPLEMENTED, as gRPC says it.

    Args:
        requests: that run.
    """

    def __init__(self, requests: Requests):
        self._requests = requests

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """Of both services, for `add_generic_rpc_handlers`."""
        services = {
            "PredictionService": {
                "Predict": (predict_pb2.PredictRequest, self.predict),
                "Classify": (classification_pb2.ClassificationRequest, self.classify),
                "Regress": (regression_pb2.RegressionRequest, self.regress),
                "GetModelMetadata": (
                    get_model_metadata_pb2.GetModelMetadataRequest,
                    self.get_model_metadata,
                ),
            },
            "ModelService": {
                "GetModelStatus": (
                    get_model_status_pb2.GetModelStatusRequest,
                    self.get_model_status,
                ),
            },
        }
        return [
            grpc.method_handlers_generic_handler(
                f"tensorflow.serving.{service}",
                {name: self._handler(name, *method) for name, method in methods.items()},
            )
            for service, methods in services.items()
        ]

    def _handler(
        self, name: str, kind: type[message.Message], method: Callable[..., Awaitable]
    ) -> grpc.RpcMethodHandler:
        async def handle(data, context):
            try:
                request = _parsed(kind, data)
                # At the client's deadline gRPC itself cancels this, and that is the end of it here.
                async with self._requests.handled(request.model_spec.name, name.lower()):
                    return await method(request)
            except Refusal as refusal:
                await context.abort(refusal.code, refusal.message)

        # Parsed by us: gRPC calls a message that is none INTERNAL, though the client made it.
        return grpc.unary_unary_rpc_method_handler(
            handle, response_serializer=lambda answer: answer.SerializeToString()
        )

    async def predict(self, request: predict_pb2.PredictRequest) -> predict_pb2.PredictResponse:
        model = _model_of(self._requests.models, request.model_spec)
        signature = model.signature(request.model_spec.signature_name)
        if set(request.inputs) != set(signature.inputs):
            raise invalid(
                f"The signature {signature.name!r} takes the inputs {sorted(signature.inputs)}. "
                f"Received: {sorted(request.inputs)}."
            )
        limit = self._requests.limits.request_bytes
        inputs = {
            name: _array(proto, signature.inputs[name], name, limit)
            for name, proto in request.inputs.items()
        }
        outputs = await self._requests.run(model, signature, inputs, request.output_filter)
        response = predict_pb2.PredictResponse(model_spec=_spec_of(model, signature.name))
        for name, values in outputs.items():
            response.outputs[name].CopyFrom(
                tf.make_tensor_proto(values, signature.outputs[name].dtype, values.shape)
            )
        return response

    async def classify(
        self, request: classification_pb2.ClassificationRequest
    ) -> classification_pb2.ClassificationResponse:
        model, name = _model_of(self._requests.models, request.model_spec), _signature_of(request)
        result = await classify(self._requests, model, name, request.input)
        return classification_pb2.ClassificationResponse(
            result=result, model_spec=_spec_of(model, name)
        )

    async def regress(
        self, request: regression_pb2.RegressionRequest
    ) -> regression_pb2.RegressionResponse:
        model, name = _model_of(self._requests.models, request.model_spec), _signature_of(request)
        result = await regress(self._requests, model, name, request.input)
        return regression_pb2.RegressionResponse(result=result, model_spec=_spec_of(model, name))

    async def get_model_metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        if set(request.metadata_field) != {METADATA_FIELD}:
            raise invalid(
                f"metadata_field must be [{METADATA_FIELD!r}]. Received: "
                f"{list(request.metadata_field)}."
            )
        model = _model_of(self._requests.models, request.model_spec)
        response = get_model_metadata_pb2.GetModelMetadataResponse(model_spec=_spec_of(model))
        response.metadata[METADATA_FIELD].Pack(model.signature_defs)
        return response

    async def get_model_status(
        self, request: get_model_status_pb2.GetModelStatusRequest
    ) -> get_model_status_pb2.GetModelStatusResponse:
        return status_of(
            self._requests.models, request.model_spec.name, _version_of(request.model_spec)
        )


def status_of(
    models: Models, name: str, version: int | None
) -> get_model_status_pb2.GetModelStatusResponse:
    """The state of a version, or without one of all of them: what is loaded is available."""
    known = models.versions(name) if version is None else [models.find(name, version)]
    response = get_model_status_pb2.GetModelStatusResponse()
    for model in known:
        status = response.model_version_status.add(
            version=model.version,
            state=get_model_status_pb2.ModelVersionStatus.AVAILABLE,
        )
        status.status.SetInParent()
    return response


def _parsed(kind, data):
    try:
        return kind.FromString(data)
    except message.DecodeError as error:
        raise invalid(f"A request must be a {kind.__name__}. Received: {error}.") from None


def _version_of(spec: model_pb2.ModelSpec) -> int | None:
    if spec.WhichOneof("version_choice") == "version_label":
        raise invalid(
            "This server knows versions by number, not by label. Received: the label "
            f"{spec.version_label!r}."
        )
    return spec.version.value if spec.HasField("version") else None


def _model_of(models: Models, spec: model_pb2.ModelSpec) -> Model:
    return models.find(spec.name, _version_of(spec))


def _signature_of(request):
    return request.model_spec.signature_name or SIGNATURE


def _spec_of(model: Model, signature: str = "") -> model_pb2.ModelSpec:
    spec = model_pb2.ModelSpec(name=model.name, signature_name=signature)
    spec.version.value = model.version
    return spec


def _array(proto, spec, name, limit):
    if proto.dtype != spec.dtype.as_datatype_enum:
        kind = types_pb2.DataType.DESCRIPTOR.values_by_number.get(proto.dtype)
        raise invalid(
            f"The input {name!r} must be {spec.dtype.name}. Received: "
            f"{kind.name if kind else proto.dtype}."
        )
    # The last value stands for all that are missing: a few bytes could become gigabytes.
    sizes = [dim.size for dim in proto.tensor_shape.dim]
    count, given = math.prod(sizes), proto.string_val
    repeated = (count - len(given)) * len(given[-1]) if given else 0
    if min(sizes, default=0) < 0 or max(count, repeated) > limit:
        raise invalid(
            f"The input {name!r} must have sizes from 0 on and at most {limit:,} bytes. Received: "
            f"the shape {sizes}."
        )
    try:
        return tf.make_ndarray(proto).reshape(sizes)
    except (ValueError, TypeError) as error:
        raise invalid(f"The input {name!r} must be a tensor. Received: {error}.") from None
