"""Many runs asleep and at gates: what they hold, which is nothing."""

from __future__ import annotations

from typing import Any

import redis
from django.db import connection

from tests import factories
from tests.harness import Stack
from threads import tenancy
from threads.models import Turn
from workflows.models import Run
from workflows.services import spawn_run


def hold_nothing(stack: Stack, *, each: int) -> None:
    """Park runs by real workers and compare the stack with itself before."""
    stack.up("conductor", "steps", "turns.a")
    stack.wait(lambda: backends() > 0)
    before, idle = backends(), busy(stack, seconds=4.0)
    home = tenancy.open_house("home", name="Home")
    asleep = factories.workflow(home, factories.sleep("long", 86400), slug="asleep")
    asking = factories.workflow(home, factories.gate("ask"), slug="asking")
    for _ in range(each):
        spawn_run(asleep)
        spawn_run(asking)

    stack.wait(
        lambda: parked("sleeping") == parked("waiting") == each, 30 + each / 4, "parked"
    )
    stack.wait(lambda: messages(stack) == 0, 20 + each / 10, "messages are left")

    assert not Turn.objects.exists()
    assert not Run.objects.exclude(holder=None).exists()
    stack.wait(lambda: backends() <= before + 1, 20, "connections are held")
    margin = idle + 0.1
    stack.wait(lambda: busy(stack, seconds=4.0) < margin, 60, f"busier than {margin}")


def parked(state: str) -> int:
    return Run.objects.filter(state=state).count()


def backends() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        )
        count: int = cursor.fetchone()[0]
        return count


def messages(stack: Stack) -> int:
    """Count what lies in the broker: tickets, and those taken and not acknowledged."""
    path = stack.broker.url.removeprefix("redis+socket://")
    client: Any = redis.Redis(unix_socket_path=path)
    sizes = {b"list": client.llen, b"hash": client.hlen}
    names = [key for key in client.keys("*") if b"binding" not in key]
    return sum(
        sizes[kind](name) for name in names if (kind := client.type(name)) in sizes
    )


def busy(stack: Stack, *, seconds: float) -> float:
    """Return the share of a core that roles and broker use over some seconds."""
    import psutil  # noqa: PLC0415

    family = {
        pid for p in stack.started.values() if p.poll() is None
        for pid in stack.family(p.pid)
    }  # fmt: skip
    family.add(stack.broker.pid)
    processes = [psutil.Process(pid) for pid in family if psutil.pid_exists(pid)]
    before = sum(sum(p.cpu_times()[:2]) for p in processes)
    stack.pause(seconds)
    return (sum(sum(p.cpu_times()[:2]) for p in processes) - before) / seconds
