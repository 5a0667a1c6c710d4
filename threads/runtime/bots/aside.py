"""One event loop a process, beside the threads that wait for what runs on it.

A model's client belongs to the loop it was made on, and the threads of a worker come and
go; so every request runs here, and its thread looks meanwhile whether it must stop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, wait
from typing import Any, TypeVar

T = TypeVar("T")
LOOK_SECONDS = 0.25


class Aside:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None

    def running(self) -> asyncio.AbstractEventLoop:
        with self.lock:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self.loop.run_forever, name="models", daemon=True
                ).start()
            return self.loop


aside = Aside()
# The loop of a parent does not run in a forked child.
os.register_at_fork(after_in_child=lambda: aside.__init__())  # type: ignore[misc]


def wait_for(work: Coroutine[Any, Any, T], look: Callable[[], bool]) -> T | None:
    """Return what the work returns, or None where a look said that it must stop.

    What it was waiting for is let go of then: a request's connection is closed.
    """
    future = asyncio.run_coroutine_threadsafe(work, aside.running())
    # Not by result(timeout=…): what ends just then would be taken for a timeout.
    while not wait([future], timeout=LOOK_SECONDS).done:
        if look():
            future.cancel()
            return None
    try:
        return future.result()
    except CancelledError:
        return None
