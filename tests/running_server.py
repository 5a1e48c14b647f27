"""A development server in this process, and its two kinds of client."""

import asyncio
import contextlib
import http.client
import json
import threading

import grpc
from albert_keras.export.server import Limits, Models, Server
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc


class RunningServer:
    """A server in a thread. `models` may be changed before it starts."""

    def __init__(self, models: Models, limits: Limits):
        self._models, self._limits = models, limits
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.server = self.call(self._made())
        self.port, self.grpc_port = self.server.port, self.server.grpc_port

    async def _made(self):
        server = Server(self._models, self._limits)
        await server.start(port=0, grpc_port=0)
        return server

    def call(self, coroutine, timeout=60):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout)

    def stop(self):
        still_running = self.call(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        return still_running

    def ask(self, method, path, body=None, timeout=60):
        """(status, headers, body) of one HTTP request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()

    def post(self, path, request):
        """(status, JSON) of a request in JSON, or in bytes."""
        body = request if isinstance(request, bytes) else json.dumps(request)
        status, headers, answer = self.ask("POST", f"/v1/models/{path}", body)
        assert headers["content-type"] == "application/json"
        return status, json.loads(answer)

    def get(self, path):
        status, headers, answer = self.ask("GET", f"/v1/models/{path}")
        assert headers["content-type"] == "application/json"
        return status, json.loads(answer)

    def metrics(self):
        return self.ask("GET", "/monitoring/prometheus/metrics")[2].decode()

    @contextlib.contextmanager
    def channel(self):
        """Stubs of both services."""
        # A pool of its own: another server may have had the port before.
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}", options) as channel:
            yield (
                prediction_service_pb2_grpc.PredictionServiceStub(channel),
                model_service_pb2_grpc.ModelServiceStub(channel),
            )
