"""Line: the queue before the model, of bounded length."""

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import TypeVar

from .refusal import Code, Refusal

# A long request does not hold up all the short ones; more would only share the same cores.
WORKERS = 2

Result = TypeVar("Result")


class Line:
    """Runs what blocks in threads, in the order of arrival, and refuses when too many wait.

    Args:
        length: int >= 0, how many may wait while all threads work.

    Attributes:
        waiting: int, how many do.
    """

    def __init__(self, length: int):
        self.waiting = 0
        self._length = length
        self._free = asyncio.Semaphore(WORKERS)
        self._running: set[asyncio.Future] = set()
        self._threads = concurrent.futures.ThreadPoolExecutor(WORKERS, "model")

    @property
    def running(self) -> int:
        """How many threads work, be it on what nobody waits for any more."""
        return len(self._running)

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of `work()`. When cancelled it leaves the queue; what has begun is ended.

        Raises:
            Refusal: RESOURCE_EXHAUSTED, the queue is full.
        """
        if self._free.locked() and self.waiting >= self._length:
            raise Refusal(
                Code.RESOURCE_EXHAUSTED,
                f"At most {self._length} requests may wait. Received: one more. Ask again later.",
            )
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        self._running.add(future)
        future.add_done_callback(self._ended)
        # TensorFlow cannot be interrupted: the thread is free when it is done and not before.
        return await asyncio.shield(future)

    def _ended(self, future):
        self._running.discard(future)
        self._free.release()

    def close(self) -> None:
        """Lets the threads go as soon as they are idle."""
        self._threads.shutdown(wait=False)
