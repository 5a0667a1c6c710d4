"""What a shop has already: plain functions and Celery tasks that `call` steps name."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from celery import Celery, shared_task  # noqa: TID251  a shop has its own
from celery.exceptions import Ignore, Reject

from workflows import calling

own = Celery("shop", set_as_current=False)


def mark(line: str) -> None:
    with Path(os.environ["WITNESS"]).open("a") as witness:
        witness.write(f"{line}\n")


def told(**more: Any) -> dict[str, Any]:
    """Return what the call knows of itself, and what it was given."""
    now = calling.current()
    assert now is not None
    return {"step": now.step, "key": now.key, "attempt": now.attempt, **more}


def add(a: int, b: int = 1) -> int:
    return a + b


async def later(a: int) -> int:
    return a


def leave() -> None:
    sys.exit("enough")


def greedy() -> int:
    return len(bytearray(2 * 1024**3))


def here() -> int:
    return os.getpid()


def stay(name: str = "stay", seconds: float = 60.0) -> str:
    """Leave a line with the key, and take one's time."""
    now = calling.current()
    mark(f"{name}:{now.key if now else ''}")
    threading.Event().wait(seconds)
    return f"{name} done"


def stubborn(name: str = "stubborn") -> None:
    """Ignore what asks it to end, and have a child that does so too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = os.fork()
    mark(f"{name}:{os.getpid()}")
    while child >= 0:
        threading.Event().wait(60)


def crash(times: int) -> int:
    """Die of a fault of memory so many times, then return the attempt."""
    now = calling.current()
    assert now is not None
    if now.attempt <= times:
        os.kill(os.getpid(), signal.SIGSEGV)
    return now.attempt


@shared_task
def nightly(day: str) -> str:
    return f"report of {day}"


@shared_task(bind=True, name="shop.bound")
def bound(self: Any, day: str = "") -> dict[str, Any]:
    headers = dict(self.request.headers)
    return {"id": self.request.id, "retries": self.request.retries, **headers}


@shared_task(bind=True, max_retries=None)
def stubborn_retry(self: Any) -> None:
    raise self.retry(exc=ConnectionError("no line"), countdown=3600)


@shared_task(autoretry_for=(ValueError,), max_retries=5, retry_backoff=True)
def flaky() -> None:
    raise ValueError("not today")


@shared_task
def nothing_to_do() -> None:
    raise Ignore


@shared_task
def refuse() -> None:
    raise Reject("the books are closed", requeue=False)


@shared_task
def broken() -> None:
    raise LookupError("no such account")


@own.task(name="shop.own")
def own_task(n: int) -> int:
    return 2 * n
