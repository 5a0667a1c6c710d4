"""Workers that die, stop, or lose their servers; what they held goes on."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from django.db import connection

from project.embedded import valkey
from tests import drive, factories
from tests.conftest import Database
from tests.harness import Stack
from threads import tenancy
from threads.models import House, Pulse, Turn
from workflows.models import Run
from workflows.services import spawn_run


@pytest.fixture
def home(stack: Stack) -> House:
    return tenancy.open_house("home", name="Home")


def settled(*runs: Run) -> bool:
    ids = [run.pk for run in runs]
    return not Run.objects.filter(pk__in=ids).active().exists()


def held(run: Run) -> Turn | None:
    return Turn.objects.filter(thread=drive.thread_of(run), state="running").first()


def worker_of(stack: Stack, turn: Turn) -> str:
    """Return the name of the worker whose process holds the turn."""
    pulse = Pulse.objects.get(pk=turn.holder or 0)
    names = [name for name in stack.started if name.startswith("turns")]
    (name,) = (n for n in names if pulse.process in stack.family(stack.started[n].pid))
    return name


@pytest.mark.timeout(120)
def test_a_killed_workers_command_is_taken_by_a_living_one_long_before_the_lease(
    stack: Stack, home: House
):
    stack.up("conductor", "steps", "turns.a", "turns.b")
    script = f"{stack.mark('slow')}; sleep 4; echo done"
    run = spawn_run(factories.workflow(home, factories.command("slow", script))).run
    stack.wait(lambda: stack.marks())
    turn = stack.wait(lambda: held(run))

    stack.kill(worker_of(stack, turn))

    stack.wait(lambda: Turn.objects.get(pk=turn.pk).attempts == 2, 20)
    stack.wait(lambda: settled(run), 30)
    run.refresh_from_db()
    assert run.state == "completed"
    assert list(stack.marks().values()) == [2]
    assert drive.bodies(run)[-3:] == [
        "slow\ndone",
        "dispatch.completed",
        "Completed.",
    ]


@pytest.mark.timeout(150)
def test_a_stopped_worker_loses_its_work_and_changes_nothing_when_it_wakes(
    stack: Stack, home: House
):
    stack.up(
        "conductor", "steps", "turns.a", "turns.b", LEASE_SECONDS="3", BEAT_SECONDS="1"
    )
    script = f"{stack.mark('slow')}; sleep 6; echo done"
    run = spawn_run(factories.workflow(home, factories.command("slow", script))).run
    stack.wait(lambda: stack.marks())
    turn = stack.wait(lambda: held(run))
    name = worker_of(stack, turn)

    stack.kill(name, number=signal.SIGSTOP)
    stack.wait(lambda: Turn.objects.get(pk=turn.pk).attempts == 2, 30)
    stack.wait(lambda: settled(run), 40)
    before = drive.entries(run)
    stack.kill(name, number=signal.SIGCONT)
    after = spawn_run(
        factories.workflow(home, factories.command("next"), slug="next")
    ).run
    stack.wait(lambda: settled(after), 30)

    assert drive.entries(run) == before
    assert [kind for *_, kind, _ in before].count("message") == 1
    assert list(stack.marks().values()) == [2]


@pytest.mark.timeout(150)
def test_a_worker_stopped_in_the_middle_of_a_write_holds_up_nobody(
    stack: Stack, home: House
):
    orders = stack.base / "orders"
    stack.env |= {
        "THREADWORK_DIE": str(orders),
        "LEASE_SECONDS": "4",
        "BEAT_SECONDS": "1",
    }
    stack.up("conductor", "steps.a", "steps.b", "turns.a")
    orders.write_text("stop send.written")
    script = factories.command("build", stack.mark("build"))
    run = spawn_run(factories.workflow(home, script)).run
    stack.wait(lambda: orders.with_suffix(".done").exists())
    stopped = int(orders.with_suffix(".done").read_text().split()[-1])
    nap = factories.workflow(home, factories.sleep("nap", 5), slug="nap")

    other = spawn_run(nap).run

    stack.wait(lambda: settled(other), 12, "a sleeper was not woken")
    stack.wait(lambda: settled(run), 30, "the run was not taken over")
    before = drive.entries(run)
    os.kill(stopped, signal.SIGCONT)
    last = spawn_run(nap).run
    stack.wait(lambda: settled(last), 20)
    assert drive.entries(run) == before
    assert drive.bodies(run).count("dispatch.started") == 1
    assert list(stack.marks().values()) == [1]


@pytest.mark.timeout(150)
def test_a_database_restart_under_living_workers_buries_nobody(
    stack: Stack, home: House, server: Database
):
    stack.up("conductor", "steps", "turns.a", "jobs")
    script = f"{stack.mark('slow')}; sleep 8; echo done"
    flow = factories.workflow(
        home, factories.command("slow", script), factories.sleep("nap", 2)
    )
    run = spawn_run(flow).run
    stack.wait(lambda: stack.marks())
    pulses = set(Pulse.objects.filter(dead_at=None).values_list("pk", flat=True))

    connection.close()
    server.restart()

    stack.wait(lambda: settled(run), 60)
    run.refresh_from_db()
    assert run.state == "completed"
    assert list(stack.marks().values()) == [1]
    assert run.attempts == 1
    assert set(Pulse.objects.filter(dead_at=None).values_list("pk", flat=True)) == (
        pulses
    )


def flows(stack: Stack, home: House, count: int) -> list[Run]:
    flow = factories.workflow(
        home,
        factories.command("one", stack.mark("one")),
        factories.sleep("nap", 1),
        factories.command("two", stack.mark("two")),
    )
    return [spawn_run(flow).run for _ in range(count)]


def all_once(stack: Stack, runs: list[Run]) -> None:
    states = {run.state for run in Run.objects.filter(pk__in=[r.pk for r in runs])}
    assert states == {"completed"}
    assert set(stack.marks().values()) == {1}
    assert len(stack.marks()) == 2 * len(runs)


@pytest.mark.timeout(150)
def test_a_broker_that_forgets_everything_costs_only_a_delay(stack: Stack, home: House):
    runs = flows(stack, home, 25)
    assert tickets(stack) >= 25
    forget(stack)
    assert tickets(stack) == 0

    stack.up("conductor", "steps", "turns.a")

    stack.wait(lambda: settled(*runs), 60)
    all_once(stack, runs)


def forget(stack: Stack) -> None:
    client(stack).flushall()


def client(stack: Stack) -> Any:
    import redis  # noqa: PLC0415

    path = stack.broker.url.removeprefix("redis+socket://")
    return redis.Redis(unix_socket_path=path)


@pytest.mark.timeout(200)
def test_thirty_seconds_without_a_broker_lose_nothing_and_multiply_nothing(
    stack: Stack, home: House
):
    stack.up("conductor", "steps", "turns.a")
    first = flows(stack, home, 5)
    valkey.stop(stack.broker)
    second = flows(stack, home, 5)
    stack.pause(30)

    stack.broker = valkey.start(stack.base / "broker")

    # Those of the first five from before, and two a worker: none for each look.
    assert tickets(stack) <= 5 + 2 * 2
    runs = first + second
    stack.wait(lambda: settled(*runs), 60)
    all_once(stack, runs)
    stack.wait(lambda: tickets(stack) == 0, 20)


def tickets(stack: Stack) -> int:
    names = [
        key for key in client(stack).keys("*") if key.endswith((b"steps", b"turns"))
    ]
    return sum(
        client(stack).llen(key) for key in names if client(stack).type(key) == b"list"
    )


@pytest.mark.timeout(120)
def test_a_conductor_without_a_broker_still_wakes_what_is_due(
    stack: Stack, home: House
):
    stack.up("conductor", "steps")
    run = spawn_run(factories.workflow(home, factories.sleep("nap", 6))).run
    stack.wait(lambda: Run.objects.get(pk=run.pk).state == "sleeping")
    ready = spawn_run(factories.workflow(home, factories.command("x"), slug="x")).run
    stack.wait(lambda: Run.objects.get(pk=ready.pk).state == "waiting")

    valkey.stop(stack.broker)

    stack.wait(lambda: Run.objects.get(pk=run.pk).state == "pending", 25)
    stack.broker = valkey.start(stack.base / "broker")
    stack.wait(lambda: settled(run), 40)
