"""Signals as something a selector can wait for, beside the lines of children."""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals(
    selector: selectors.BaseSelector, stop: Callable[[], None]
) -> Iterator[None]:
    """Wake the selector at each signal and call stop for those that ask for an end.

    The handlers do next to nothing, so no signal can interrupt a half-made change.
    """
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    earlier = {
        number: signal.signal(number, lambda *_: stop())
        for number in STOPPING
        # Under nohup the end of the terminal is not meant for us.
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
    }
    # A child's end must wake the selector as well; by default it is not delivered.
    earlier[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    selector.register(reader, selectors.EVENT_READ, lambda: drain(reader))
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        for number, handler in earlier.items():
            signal.signal(number, handler)
        selector.close()
        os.close(reader)
        os.close(writer)


def drain(reader: int) -> None:
    with suppress(BlockingIOError):
        while os.read(reader, 4096):
            pass
