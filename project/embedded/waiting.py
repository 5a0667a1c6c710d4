"""Waiting for another process: there is nothing to be woken by, so look often."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], *, seconds: float) -> bool:
    """Look until the condition holds; False when the time is over."""
    end = time.monotonic() + seconds
    pause = 0.005
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
    return True
