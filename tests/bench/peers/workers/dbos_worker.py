"""A worker of DBOS, and what enqueues and sends for it: run by the peers' own Python."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from dbos import DBOS, DBOSClient
from lines import leave

URL, QUEUE = os.environ["PEER_URL"], "bench"
STEPS = 10


def work(concurrency: int, poll: float, name: str) -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": URL,
            "executor_id": name,
            "application_version": "1",
            "log_level": "ERROR",
        }
    )

    @DBOS.step()
    def act(line: str) -> int:
        return leave(line)

    @DBOS.workflow(name="steps")
    def steps(name: str) -> None:
        for n in range(STEPS):
            act(f"{name}:{n}")

    @DBOS.workflow(name="mark")
    def mark(name: str) -> None:
        act(name)

    @DBOS.workflow(name="wait")
    def wait(name: str) -> None:
        leave(f"parked:{name}")
        DBOS.recv("go", timeout_seconds=86_400)
        act(name)

    DBOS.launch()
    DBOS.register_queue(
        QUEUE,
        worker_concurrency=concurrency or None,
        polling_interval_sec=poll,
        on_conflict="always_update",
    )
    leave("up")
    threading.Event().wait()


def serve() -> None:
    """Enqueue and send what the lines of standard input say, and answer when it began."""
    client = DBOSClient(system_database_url=URL)
    for line in sys.stdin:
        order, began = json.loads(line), time.time_ns()
        match order:
            case {"spawn": workflow, "name": name}:
                client.enqueue(
                    {
                        "workflow_name": workflow,
                        "queue_name": QUEUE,
                        "workflow_id": name,
                    },
                    name,
                )
            case {"wake": name}:
                client.send(name, {}, "go")
        sys.stdout.write(f"{began}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            serve()
        case [name, concurrency, poll]:
            work(int(concurrency), float(poll), name)
