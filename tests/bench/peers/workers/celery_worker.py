"""Plain Celery without any promise: run by the peers' own Python."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from celery import Celery, chain
from lines import leave

STEPS = 10
app = Celery("celery_worker", broker=os.environ["PEER_URL"])
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=4,
    worker_hijack_root_logger=False,
    task_default_queue="peer",
    broker_connection_retry_on_startup=True,
)


@app.task
def step(before: Any, name: str, n: int) -> int:
    return leave(f"{name}:{n}")


@app.task
def mark(name: str) -> int:
    return leave(name)


def serve() -> None:
    """Send what the lines of standard input say, and answer when it began."""
    for line in sys.stdin:
        order, began = json.loads(line), time.time_ns()
        match order:
            case {"spawn": "steps", "name": name}:
                first, *rest = [step.s(name, n) for n in range(1, STEPS)]
                chain(step.s(None, name, 0), first, *rest).apply_async()
            case {"spawn": "mark", "name": name}:
                mark.delay(name)
        sys.stdout.write(f"{began}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
