"""A development server that speaks TensorFlow Serving's gRPC and REST; it needs the extra `serve`.

It is for trying a client or a model on one's own machine. In production use TensorFlow Serving.
"""

try:
    import grpc  # noqa: F401
    import prometheus_client  # noqa: F401
    import starlette  # noqa: F401
    import tensorflow_serving.apis  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"The development server needs libraries that cannot be imported ({error}). Install them: "
        "pip install 'albert-keras[serve]'."
    ) from error

from .limits import Limits
from .models import Models
from .server import Server, serve

__all__ = ["Limits", "Models", "Server", "serve"]
