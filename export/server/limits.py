"""Limits: what the server takes on, so that no client can exhaust it."""

from typing import NamedTuple


class Limits(NamedTuple):
    """What the server takes on.

    Attributes:
        rows: int > 0, of one request.
        request_bytes: int > 0, of one request, in either protocol.
        queue: int >= 0, requests that wait for their turn; one more is refused at once.
        seconds: float > 0, from a request to its answer.
        grace: float > 0, seconds that requests have to end when the server is stopped.
    """

    rows: int = 256
    request_bytes: int = 4 * 2**20  # as in gRPC, whose clients take no larger answer either
    queue: int = 32
    seconds: float = 30.0  # as TensorFlow Serving's REST
    grace: float = 10.0  # Docker kills after 10 s, Kubernetes after 30
