"""The test's own broker, seen from outside: what lies in it, and how it is disturbed."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import redis

from project import health
from project.celery import app
from project.embedded import valkey
from tests import factories
from tests.harness import Stack
from tests.parked import messages
from threads.models import House
from workflows.models import Run
from workflows.services import spawn_run

__all__ = ["messages"]


def client(stack: Stack) -> Any:
    path = stack.broker.url.removeprefix("redis+socket://")
    return redis.Redis(unix_socket_path=path)


def unacked(stack: Stack) -> int:
    """Count the messages that workers have taken and not acknowledged."""
    keys = client(stack).keys("*unacked")
    return sum(client(stack).hlen(key) for key in keys)


def put(
    queue: str,
    body: object,
    *,
    content_type: str = "",
    **headers: Any,
) -> None:
    """Put a message of any shape on a queue, as another program might."""
    headers = {"task": "threads.job", "id": str(uuid4()), "lang": "py", **headers}
    coding = "binary" if isinstance(body, bytes) else "utf-8"
    how = {"content_type": content_type, "content_encoding": coding}
    with app.connection_for_write() as link:
        link.Producer().publish(
            body,
            routing_key=queue,
            exchange="",
            headers=headers,
            **(how if content_type else {"serializer": "json"}),
        )


PICKLE = "application/x-python-serialize"


class Bomb:
    """Leaves a file behind wherever it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def bomb(path: Path) -> bytes:
    return pickle.dumps(Bomb(path))


def put_raw(stack: Stack, queue: str, words: bytes) -> None:
    """Push bytes that no Celery wrote onto the list itself."""
    client(stack).lpush(f"threadwork:default:{queue}", words)


def drop(stack: Stack, *, files: bool) -> None:
    """Kill the broker and start it again, with its files or without."""
    os.kill(stack.broker.pid, signal.SIGKILL)
    valkey.stop(stack.broker)
    if not files:
        shutil.rmtree(stack.broker.place.data)
    stack.broker = valkey.start(stack.base / "broker")


def fill(link: Any) -> None:
    """Leave the broker no memory but for what it throws away."""
    used = link.info("memory")["used_memory"]
    link.config_set("maxmemory", used + 1_000_000)
    with contextlib.suppress(redis.ResponseError):
        for number in range(400):
            link.set(f"junk:{number}", "x" * 5000)


def flows(stack: Stack, home: House, count: int, *, slug: str = "twice") -> list[Run]:
    """Start runs of two commands with a short sleep between them."""
    flow = factories.workflow(
        home,
        factories.command("one", stack.mark("one")),
        factories.sleep("nap", 1),
        factories.command("two", stack.mark("two")),
        slug=slug,
    )
    return [spawn_run(flow).run for _ in range(count)]


def settled(*runs: Run) -> bool:
    ids = [run.pk for run in runs]
    return not Run.objects.filter(pk__in=ids).active().exists()


def all_once(stack: Stack, runs: list[Run]) -> None:
    """Every run has completed and left each of its lines once."""
    found = Run.objects.filter(pk__in=[run.pk for run in runs])
    assert {run.state for run in found} == {"completed"}
    marks = {
        key: count
        for key, count in stack.marks().items()
        if any(str(run.pk) in key for run in runs)
    }
    assert set(marks.values()) == {1}, marks
    assert len(marks) == 2 * len(runs)


def hang(stack: Stack, home: House, *, seconds: float) -> None:
    """Let the broker stand still; starts are taken, and all of it runs afterwards."""
    stack.up("conductor", "steps", "turns")
    runs = flows(stack, home, 5)
    stack.wait(stack.marks)
    os.kill(stack.broker.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        runs += flows(stack, home, 20)
        assert time.monotonic() - began < 6
        assert "does not answer" in health.broker()
        stack.pause(seconds)
    finally:
        os.kill(stack.broker.pid, signal.SIGCONT)

    stack.wait(lambda: settled(*runs), 60)
    all_once(stack, runs)
    assert health.broker() == ""
