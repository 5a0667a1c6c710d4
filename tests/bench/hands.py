"""What bench steps call: each call leaves a line with its time and process."""

from __future__ import annotations

import os
import threading
import time
from functools import cache

CALLS = ",".join(
    f"{name}=quick:tests.bench.hands.{name}" for name in ("tick", "mark", "work")
)


@cache
def witness() -> int:
    return os.open(os.environ["WITNESS"], os.O_WRONLY | os.O_APPEND)


def leave(name: str) -> None:
    line = f"{name} {time.time_ns()} {os.getpid()}\n"
    os.write(witness(), line.encode())  # appended whole, whoever else writes


def tick() -> None:
    leave("tick")


def mark(name: str) -> None:
    leave(name)


def work(name: str, seconds: float = 1.0) -> None:
    leave(f"{name}:began")
    threading.Event().wait(seconds)
    leave(f"{name}:ended")
