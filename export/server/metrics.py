"""Metrics: what the server tells Prometheus."""

from collections.abc import Callable, Collection

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

PATH = "/monitoring/prometheus/metrics"  # TensorFlow Serving's
_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30)


class Metrics:
    """Counts of one server.

    Args:
        names: of the models; a request for another counts for "", or any client could make as many
            series as it likes.
        waiting, running: how many requests do so now.
    """

    def __init__(
        self, names: Collection[str], waiting: Callable[[], int], running: Callable[[], int]
    ):
        self._names = set(names)
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)  # memory and CPU time
        self._requests = Counter(
            "albert_keras_requests",
            "Requests that have ended, by the code of gRPC.",
            ["model", "method", "code"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "albert_keras_request_seconds",
            "From a request to its answer or refusal.",
            ["model", "method"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._rows = Counter(
            "albert_keras_rows", "Rows that were answered.", ["model"], registry=self._registry
        )
        for name, text, value in (
            ("albert_keras_queue_length", "Requests that wait for a thread.", waiting),
            ("albert_keras_running", "Requests that a thread computes.", running),
        ):
            Gauge(name, text, registry=self._registry).set_function(value)

    def ended(self, model: str, method: str, code: str, seconds: float) -> None:
        """One more request has ended."""
        model = model if model in self._names else ""
        self._requests.labels(model, method, code).inc()
        self._seconds.labels(model, method).observe(seconds)

    def answered(self, model: str, rows: int) -> None:
        """That many more rows have been answered."""
        self._rows.labels(model).inc(rows)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)
