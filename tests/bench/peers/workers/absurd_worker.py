"""A worker of Absurd, and what spawns and emits for it: run by the peers' own Python."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

from absurd_sdk import Absurd, AsyncAbsurd
from lines import leave

URL, QUEUE = os.environ["PEER_URL"], "bench"
STEPS = 10


def work(concurrency: int, poll: float) -> None:
    app = Absurd(URL, queue_name=QUEUE)

    @app.register_task("steps")
    def steps(params: Any, ctx: Any) -> None:
        for n in range(STEPS):
            ctx.step(f"s{n}", lambda n=n: leave(f"{params['name']}:{n}"))

    @app.register_task("mark")
    def mark(params: Any, ctx: Any) -> None:
        ctx.step("s0", lambda: leave(params["name"]))

    @app.register_task("wait")
    def wait(params: Any, ctx: Any) -> None:
        leave(f"parked:{params['name']}")
        ctx.await_event(f"go:{params['name']}")
        ctx.step("s0", lambda: leave(params["name"]))

    leave("up")
    app.start_worker(concurrency=concurrency, poll_interval=poll)


async def work_async(poll: float) -> None:
    app = AsyncAbsurd(URL, queue_name=QUEUE)

    @app.register_task("steps")
    async def steps(params: Any, ctx: Any) -> None:
        for n in range(STEPS):

            async def act(n: int = n) -> int:
                return leave(f"{params['name']}:{n}")

            await ctx.step(f"s{n}", act)

    leave("up")
    await app.start_worker(concurrency=8, poll_interval=poll)


def serve() -> None:
    """Spawn and emit what the lines of standard input say, and answer when it began."""
    app = Absurd(URL, queue_name=QUEUE)
    for line in sys.stdin:
        order, began = json.loads(line), time.time_ns()
        match order:
            case {"fresh": _}:
                app.drop_queue(QUEUE)
                app.create_queue(QUEUE)
            case {"spawn": task, "name": name}:
                app.spawn(task, {"name": name}, queue=QUEUE)
            case {"wake": name}:
                app.emit_event(f"go:{name}", {}, queue_name=QUEUE)
        sys.stdout.write(f"{began}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            serve()
        case ["async", _, poll]:
            asyncio.run(work_async(float(poll)))
        case [_, concurrency, poll]:
            work(int(concurrency), float(poll))
