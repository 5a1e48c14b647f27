"""Server: both protocols on their ports, and their end."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import grpc
import uvicorn

from .grpc_methods import GrpcMethods
from .http_routes import HttpRoutes
from .limits import Limits
from .models import Models
from .requests import Requests

LOOPBACK = "127.0.0.1"
_TO_SEND = 1.0  # seconds for the last answers to reach slow clients
NOTICE = "A server for development. In production serve the same folders with TensorFlow Serving."


class _Http(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self):
        yield  # a signal stops both protocols, so it is not uvicorn's


class Server:
    """Answers by HTTP and by gRPC, from one event loop.

    Args:
        models: that answer.
        limits: of the requests.

    Attributes:
        port, grpc_port: int, where it listens.

    Example:

    >>> server = Server(Models(["served/mail"]), Limits())
    >>> await server.start(port=0, grpc_port=0)
    >>> await server.stop()
    """

    def __init__(self, models: Models, limits: Limits):
        self._requests = Requests(models, limits)
        self._limits = limits

    async def start(self, host: str = LOOPBACK, port: int = 8501, grpc_port: int = 8500) -> None:
        """Listens; a port of 0 is any that is free.

        Raises:
            ValueError: a port is taken, or the host is none of this machine's addresses.
        """
        listening = listen(host, port)
        self.port = listening.getsockname()[1]
        self._grpc = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", self._limits.request_bytes),
                ("grpc.so_reuseport", 0),  # two servers on one port would share its requests
            ]
        )
        self._grpc.add_generic_rpc_handlers(GrpcMethods(self._requests).handlers())
        address = f"[{host}]:{grpc_port}" if ":" in host else f"{host}:{grpc_port}"
        try:
            self.grpc_port = self._grpc.add_insecure_port(address)
        except RuntimeError as error:
            listening.close()
            raise _taken(host, grpc_port) from error
        self._http = _Http(
            uvicorn.Config(
                HttpRoutes(self._requests).app(),
                loop="asyncio",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=self._limits.grace + _TO_SEND,
            )
        )
        await self._grpc.start()
        self._serving = asyncio.create_task(self._http.serve(sockets=[listening]))
        while not self._http.started:
            await asyncio.sleep(0.01)

    async def stop(self) -> bool:
        """Takes no new requests, and answers those that have begun or refuses them after `grace`.

        Returns:
            Whether a thread still computes what nobody waits for.
        """
        self._requests.end_in(self._limits.grace)
        self._http.should_exit = True
        await asyncio.gather(self._serving, self._grpc.stop(self._limits.grace + _TO_SEND))
        self._requests.line.close()
        return self._requests.line.running > 0


def serve(
    folders: Sequence[str | Path],
    limits: Limits,
    host: str = LOOPBACK,
    port: int = 8501,
    grpc_port: int = 8500,
) -> None:
    """Serves exports for development until SIGTERM or SIGINT; for production there is TensorFlow's.

    It speaks the REST and the gRPC of TensorFlow Serving, and has a page at `/`.

    Args:
        folders: of versions, as `albert-keras export` writes them; all versions are served.
        limits: of the requests.
        host: the address to listen at. Elsewhere than at the loopback one, everybody who reaches
            it can ask: there are no passwords.
        port: of HTTP.
        grpc_port: of gRPC.

    Raises:
        ValueError: as of `Models` and `Server.start`.

    Example:

    >>> serve(["served/mail"], Limits())
    """
    print(NOTICE, flush=True)
    models = Models(folders)
    if asyncio.run(_serve(models, host, port, grpc_port, limits)):
        print(f"Stopped, with a request unanswered after {limits.grace:g} s.", file=sys.stderr)
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(0)  # Python would wait for the thread that computes it
    print("Stopped.", flush=True)


async def _serve(models, host, port, grpc_port, limits):
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    server = Server(models, limits)
    await server.start(host, port, grpc_port)
    for name in models.names:
        versions = ", ".join(str(model.version) for model in models.versions(name))
        print(f"{name}: version {versions}")
    shown = f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{server.port}/ and gRPC on {shown}:{server.grpc_port}", flush=True)
    await stopped.wait()
    return await server.stop()


def listen(host: str, port: int) -> socket.socket:
    """A socket for HTTP at an address of this machine; 0 for any free port.

    Raises:
        ValueError: the port is taken, or the address is none.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        raise _taken(host, port) from error
    # Connections inherit it. Else the body of an answer waits behind its head until the client has
    # acknowledged that, which clients that keep their connection do 40 ms later.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _taken(host, port):
    return ValueError(
        f"A server needs a port that is free, at an address of this machine. Received: {host}, "
        f"port {port}. Take another --port or --grpc-port, or stop what uses it."
    )
