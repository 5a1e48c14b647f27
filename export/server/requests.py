"""Requests: how a request is run, whichever protocol brought it."""

import asyncio
import contextlib
import math
import sys
import time
import traceback
from collections.abc import AsyncIterator, Collection, Mapping

import numpy as np
import tensorflow as tf

from .limits import Limits
from .line import Line
from .metrics import Metrics
from .models import Model, Models, Signature
from .refusal import Code, Refusal, invalid

# Of the numbers in an answer. As JSON it is five times that, whose writing holds up everybody.
_ANSWER_BYTES = 16 * 2**20
_CODES = {code.value[0]: code for code in Code}


class Requests:
    """Runs requests on models within limits, and counts them.

    Both protocols do the same: `async with handled(...)` around the whole of a request, and in it
    `run`.

    Args:
        models: that answer.
        limits: of each request and of all together.
    """

    def __init__(self, models: Models, limits: Limits):
        self.models = models
        self.limits = limits
        self.line = Line(limits.queue)
        self._timeouts: set[asyncio.Timeout] = set()
        self._end: float | None = None  # in the time of the event loop
        self.metrics = Metrics(models.names, lambda: self.line.waiting, lambda: self.line.running)

    @contextlib.asynccontextmanager
    async def handled(self, model: str, method: str) -> AsyncIterator[None]:
        """Ends what takes too long, makes a `Refusal` of every failure, counts and times."""
        begun, code = time.perf_counter(), Code.OK
        timeout = asyncio.timeout(self.limits.seconds)
        try:
            if self._end is not None:
                raise Refusal(Code.UNAVAILABLE, "The server is being stopped.")
            async with timeout:
                self._timeouts.add(timeout)
                yield
        except Refusal as refusal:
            code = refusal.code
            raise
        except TimeoutError:
            if timeout.when() == self._end:
                code = Code.UNAVAILABLE
                raise Refusal(code, "The server was stopped before it had an answer.") from None
            code = Code.DEADLINE_EXCEEDED
            raise Refusal(
                code,
                f"An answer may take {self.limits.seconds:g} s. Received: a request that took "
                "longer.",
            ) from None
        except asyncio.CancelledError:
            code = Code.CANCELLED
            raise
        except Exception as error:  # ours, so whoever runs the server should see all of it
            code = Code.INTERNAL
            traceback.print_exc(file=sys.stderr)
            raise Refusal(code, f"The server failed: {type(error).__name__}.") from error
        finally:
            self._timeouts.discard(timeout)
            self.metrics.ended(model, method, code.name, time.perf_counter() - begun)

    def end_in(self, seconds: float) -> None:
        """Refuses new requests, and after so long those that have begun and are not answered."""
        self._end = asyncio.get_running_loop().time() + seconds
        for timeout in self._timeouts:
            if not timeout.expired():
                timeout.reschedule(min(timeout.when(), self._end))

    async def run(
        self,
        model: Model,
        signature: Signature,
        inputs: Mapping[str, np.ndarray],
        wanted: Collection[str] = (),
    ) -> dict[str, np.ndarray]:
        """The outputs of a signature, when its turn has come.

        Args:
            inputs: the batch, of the signature's names, dtypes (object for strings) and shapes.
            wanted: names of outputs, none for all.

        Raises:
            Refusal: the inputs do not fit the signature or the limits, the queue is full, or the
                graph fails.
        """
        wanted = _checked_names(wanted, signature)
        rows = _checked_rows(inputs, signature, self.limits.rows)
        tensors = {
            name: tf.constant(values, signature.inputs[name].dtype, values.shape)
            for name, values in inputs.items()
        }

        def compute():
            outputs = signature.function(**tensors)
            return {name: outputs[name].numpy() for name in wanted}

        try:
            answer = await self.line.run(compute)
        except tf.errors.OpError as error:
            said = " ".join(str(error.message).split())
            raise Refusal(
                _CODES.get(error.error_code, Code.UNKNOWN), f"The model failed: {said}"
            ) from error
        size = sum(_bytes_of(values) for values in answer.values())
        if size > _ANSWER_BYTES:
            raise invalid(
                f"An answer may hold {_ANSWER_BYTES:,} bytes of numbers. Received: a request whose "
                f"answer holds {size:,}. Send fewer rows."
            )
        self.metrics.answered(model.name, rows)
        return answer


def _checked_names(wanted, signature):
    unknown = sorted(set(wanted) - set(signature.outputs))
    if unknown or len(set(wanted)) != len(wanted):
        raise invalid(
            f"Outputs must be some of {sorted(signature.outputs)}, each once. Received: "
            f"{sorted(wanted)}."
        )
    return list(wanted) or sorted(signature.outputs)


def _checked_rows(inputs, signature, limit):
    for name, spec in signature.inputs.items():
        if not spec.shape.is_compatible_with(inputs[name].shape):
            raise invalid(
                f"The input {name!r} must have the shape {_shape(spec.shape)}. Received: "
                f"{_shape(inputs[name].shape)}."
            )
    rows = {name: len(values) for name, values in inputs.items() if values.ndim}
    if len(set(rows.values())) > 1:
        raise invalid(f"All inputs must have equally many rows. Received: {rows}.")
    # Each option of a question is a row to compute.
    sizes = (_open_size(values, signature.inputs[name]) for name, values in inputs.items())
    computed = max(sizes, default=0)
    if computed > limit:
        raise invalid(
            f"A request may have {limit:,} rows, options counted. Received: {computed:,}. Send "
            "several requests."
        )
    return max(rows.values(), default=0)


def _open_size(values, spec):
    """How many places the axes have together that a client may make as long as it likes."""
    sizes = zip(values.shape, spec.shape, strict=True)
    return math.prod(size for size, fixed in sizes if fixed is None)


def _shape(shape):
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"


def _bytes_of(values):
    if values.dtype == object:
        return sum(len(value) for value in values.flat)
    return values.nbytes
