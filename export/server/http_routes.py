"""The routes of TensorFlow Serving's REST, the page, and the metrics, by HTTP."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable

from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from tensorflow_serving.apis import input_pb2

from . import metrics
from .examples import classify, regress
from .grpc_methods import METADATA_FIELD, status_of
from .json_tensors import read_object, read_tensors, string_of, write_tensors
from .models import Model
from .page import PAGE, POLICY, described
from .refusal import Code, Refusal, invalid
from .requests import Requests

_PATH = re.compile(
    r"/(?P<model>[^/:]+)(/versions/(?P<version>\d{1,19}))?"
    r"(:(?P<method>predict|classify|regress)|/(?P<metadata>metadata))?"
)


class HttpRoutes:
    """What an HTTP server answers.

    Args:
        requests: that run.
    """

    def __init__(self, requests: Requests):
        self._requests = requests

    def app(self) -> Starlette:
        """The ASGI application."""
        return Starlette(
            routes=[
                Route("/", self.page),
                Route("/models", self.models),
                Route(metrics.PATH, self.metrics),
                Route("/v1/models{rest:path}", self.rest, methods=["GET", "POST"]),
            ],
            exception_handlers={HTTPException: _no_route},
        )

    async def page(self, request: Request) -> Response:
        return HTMLResponse(PAGE, headers={"Content-Security-Policy": POLICY})

    async def models(self, request: Request) -> Response:
        """What the page has to know of the models."""
        models = self._requests.models
        return _json([described(model) for name in models.names for model in models.versions(name)])

    async def metrics(self, request: Request) -> Response:
        return Response(
            self._requests.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    async def rest(self, request: Request) -> Response:
        """Everything under /v1/models."""
        found = _PATH.fullmatch(request.path_params["rest"])
        asked = found["method"] if found else None
        try:
            if found is None or (request.method == "POST") != bool(asked):
                raise invalid(
                    "The routes are GET /v1/models/NAME[/versions/N][/metadata] and POST "
                    "/v1/models/NAME[/versions/N]:predict, :classify and :regress. Received: "
                    f"{request.method} {request.url.path}."
                )
            method = asked or ("getmodelmetadata" if found["metadata"] else "getmodelstatus")
            async with self._requests.handled(found["model"], method):
                version = None if found["version"] is None else int(found["version"])
                if method == "getmodelstatus":
                    return _json(_status(self._requests, found["model"], version))
                model = self._requests.models.find(found["model"], version)
                if method == "getmodelmetadata":
                    return _json(_metadata(model))
                answer: Callable[..., Awaitable] = getattr(self, f"_{method}")
                body = read_object(await self._body(request))
                return _json(await _while_connected(request, answer(model, body)))
        except Refusal as refusal:
            return _json({"error": refusal.message}, refusal.status)

    async def _body(self, request):
        limit, size, parts = self._requests.limits.request_bytes, 0, []
        async for part in request.stream():
            size += len(part)
            # Read to its end even so: who is still sending would not see the refusal.
            if size <= limit:
                parts.append(part)
        if size > limit:
            raise Refusal(
                Code.INVALID_ARGUMENT,
                f"A request may have {limit:,} bytes. Received: {size:,}.",
                status=413,
            )
        return b"".join(parts)

    async def _predict(self, model: Model, request: dict) -> dict:
        signature = model.signature(request.get("signature_name", ""))
        inputs, form = read_tensors(request, signature.inputs)
        return write_tensors(await self._requests.run(model, signature, inputs), form)

    async def _classify(self, model: Model, request: dict) -> dict:
        name, rows = request.get("signature_name", ""), _input(request)
        result = await classify(self._requests, model, name, rows)
        return {
            "results": [
                [[entry.label, entry.score] for entry in row.classes]
                for row in result.classifications
            ]
        }

    async def _regress(self, model: Model, request: dict) -> dict:
        name, rows = request.get("signature_name", ""), _input(request)
        result = await regress(self._requests, model, name, rows)
        return {"results": [entry.value for entry in result.regressions]}


async def _while_connected(request: Request, answer: Awaitable) -> dict:
    """The answer, unless the client hangs up before: then it leaves the queue."""
    work, gone = asyncio.ensure_future(answer), asyncio.ensure_future(_hung_up(request))
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise Refusal(Code.CANCELLED, "The client has gone.")
        return work.result()
    finally:
        work.cancel()
        gone.cancel()


async def _hung_up(request):
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _json(content, status=200):
    # NaN and Infinity as they are, as TensorFlow Serving writes them.
    return Response(json.dumps(content), status, media_type="application/json")


async def _no_route(request: Request, error: HTTPException) -> Response:
    message = f"{error.detail}. Received: {request.method} {request.url.path}."
    return _json({"error": message}, error.status_code)


def _status(requests: Requests, name: str, version: int | None) -> dict:
    return _listed(status_of(requests.models, name, version))


def _metadata(model: Model) -> dict:
    return {
        "model_spec": {"name": model.name, "signature_name": "", "version": str(model.version)},
        "metadata": {METADATA_FIELD: _listed(model.signature_defs)},
    }


def _listed(message):
    return MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _input(request: dict) -> input_pb2.Input:
    """The tf.Examples of a request to classify or regress."""
    examples = request.get("examples")
    if not isinstance(examples, list) or not examples:
        raise invalid("'examples' must be a list with one or more. Received: none.")
    rows = input_pb2.Input()
    listed = rows.example_list
    if "context" in request:
        listed = rows.example_list_with_context
        _fill(listed.context, request["context"], "context")
    for number, features in enumerate(examples):
        _fill(listed.examples.add(), features, f"example {number}")
    return rows


def _fill(example, features, name):
    if not isinstance(features, dict):
        raise invalid(f"An example must be an object of features. Received: {name} is none.")
    for key, values in features.items():
        values = values if isinstance(values, list) else [values]
        feature = example.features.feature[key]
        kinds = {type(value) for value in values}
        if kinds <= {bool, int}:
            if not all(-(2**63) <= value < 2**63 for value in values):
                raise invalid(f"{name}: a whole number must fit 64 bits. Received: {key!r}.")
            feature.int64_list.value.extend(values)
        elif kinds == {float}:
            feature.float_list.value.extend(values)
        elif kinds <= {str, dict}:
            feature.bytes_list.value.extend(string_of(value, key) for value in values)
        else:
            raise invalid(
                f"{name}: a feature holds strings, whole numbers or fractions, not several kinds. "
                f"Received: {key!r}."
            )
