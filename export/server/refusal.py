"""Refusal: an error that a client gets, in the codes of gRPC and of HTTP."""

import grpc

Code = grpc.StatusCode

# As TensorFlow Serving translates them; of RESOURCE_EXHAUSTED it makes 429, but its own full queue
# is UNAVAILABLE and so 503, which tells a client the same thing as here: ask again later.
HTTP = {
    Code.CANCELLED: 499,
    Code.INVALID_ARGUMENT: 400,
    Code.FAILED_PRECONDITION: 400,
    Code.OUT_OF_RANGE: 400,
    Code.UNAUTHENTICATED: 401,
    Code.PERMISSION_DENIED: 403,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.ABORTED: 409,
    Code.UNIMPLEMENTED: 501,
    Code.RESOURCE_EXHAUSTED: 503,
    Code.UNAVAILABLE: 503,
    Code.DEADLINE_EXCEEDED: 504,
}


class Refusal(Exception):
    """Why a request has no answer.

    Args:
        code: of gRPC.
        message: the rule, what was received, the way out.
        status: int of HTTP, where the code alone does not say it.
    """

    def __init__(self, code: Code, message: str, status: int | None = None):
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status or HTTP.get(code, 500)


def invalid(message: str) -> Refusal:
    """The refusal of a request that can never be answered as it is."""
    return Refusal(Code.INVALID_ARGUMENT, message)
