"""asked_to_stop: Ctrl-C and SIGTERM as an event, so that a run can save and end by itself."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets; the second ends the process at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in signals}

    def stop(number, frame):
        asked.set()
        for other in signals:
            signal.signal(other, before[other])

    for number in signals:
        signal.signal(number, stop)
    try:
        yield asked
    finally:
        for number in signals:
            signal.signal(number, before[number])
