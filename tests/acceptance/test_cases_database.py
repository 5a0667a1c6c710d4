"""Cases 30 to 33: a database that goes away, stale lists, gaps and crossed locks."""

from __future__ import annotations

import signal
import threading
import time
import urllib.error
import urllib.request
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.models.functions import Now

from tests import brokers, drive, factories, hands
from tests.conftest import Database
from tests.harness import Stack
from threads.models import House, Turn
from workflows import sweep
from workflows.models import Run, Slot, Workflow
from workflows.services import spawn_run
from workflows.setup import open_home

ROLES = ("conductor", "steps", "turns", "jobs")


@pytest.fixture
def home(stack: Stack, settings: Any) -> House:
    settings.SWEEP_SECONDS = 1.0
    stack.env["SWEEP_SECONDS"] = "1"
    return open_home()[0]


class Reader:
    """Somebody signed in who asks for pages and does not wait long."""

    def __init__(self, stack: Stack, client: Any) -> None:
        client.force_login(open_home()[1])
        self.cookie = f"sessionid={client.cookies['sessionid'].value}"
        self.stack = stack

    def asks(self, path: str = "/", *, patience: float = 10) -> int:
        page = urllib.request.Request(  # noqa: S310  our own
            self.stack.url("web") + path, headers={"Cookie": self.cookie}
        )
        try:
            with urllib.request.urlopen(page, timeout=patience) as answer:  # noqa: S310
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def ready(self) -> bool:
        try:
            return self.asks("/readyz", patience=5) == 200
        except OSError:
            return False


def due(flow: Workflow) -> None:
    Workflow.objects.filter(pk=flow.pk).update(
        next_slot_at=Now() - timedelta(seconds=1)
    )


# Case 30: Postgres goes away, in each of the ways it may.
@pytest.mark.timeout(200)
def test_a_database_that_goes_in_any_way_ends_no_role_and_loses_no_slot(
    stack: Stack, home: House, server: Database, client: Any
):
    seconds = 1.0
    reader = Reader(stack, client)
    hourly = factories.workflow(
        home, factories.call("noop"), slug="hourly", schedule="@hourly"
    )
    stack.start("beat", "web")
    stack.up(*ROLES)
    stack.wait(reader.ready)
    runs = brokers.flows(stack, home, 3)
    for number in (signal.SIGINT, signal.SIGQUIT):
        due(hourly)
        runs += brokers.flows(stack, home, 3)
        connection.close()
        with server.away(number):
            began = time.monotonic()
            assert (reader.asks(), reader.asks("/readyz")) == (503, 503)
            assert time.monotonic() - began < 10
            with pytest.raises(OperationalError):
                factories.workflow(home, factories.call("noop"), slug="late")
            stack.pause(seconds)
        runs += brokers.flows(stack, home, 1)
    hands.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="
        " current_database() AND pid <> pg_backend_pid()"
    )

    stack.wait(lambda: brokers.settled(*runs), 60)
    brokers.all_once(stack, runs)
    assert reader.asks() == 200
    stack.kill("conductor")
    before = Slot.objects.filter(workflow=hourly).count()
    due(hourly)
    stack.wait(
        lambda: Slot.objects.filter(workflow=hourly).count() > before, 40, "beat"
    )
    slots = Slot.objects.filter(workflow=hourly, outcome__in=["fired", "late"])
    assert Run.objects.filter(workflow=hourly).count() == slots.count()
    names = ("beat", "web", "steps", "turns", "jobs")
    assert [n for n in names if stack.started[n].poll() is not None] == []


# Case 31: a worker that stood still between its claim and its work.
@pytest.mark.timeout(120)
def test_a_worker_that_stood_still_after_its_claim_begins_nothing(
    stack: Stack, home: House
):
    stack.env |= {"LEASE_SECONDS": "2", "BEAT_SECONDS": "0.5"}
    orders = stack.base / "orders"
    stack.up("conductor", "steps")
    stack.up("turns.a", THREADWORK_DIE=str(orders))
    orders.write_text("stop turn.claimed")
    flow = factories.workflow(home, factories.command("one", stack.mark("one")))
    run = spawn_run(flow).run
    stack.wait(lambda: hands.wait_of(run).await_turn_id)
    stack.wait(lambda: turn_of(run).state == "running")
    stack.up("turns.b")

    stack.wait(lambda: brokers.settled(run))
    stack.kill("turns.a", number=signal.SIGCONT)
    after = spawn_run(flow).run
    stack.wait(lambda: brokers.settled(after))

    assert set(stack.marks().values()) == {1}
    assert len(stack.marks()) == 2


def turn_of(run: Run) -> Turn:
    return Turn.objects.get(thread=drive.thread_of(run))


# Case 31: a sweep that was held up between its list and its writes.
@pytest.mark.timeout(120)
def test_a_sweep_with_a_stale_list_changes_nothing(
    stack: Stack, home: House, monkeypatch: pytest.MonkeyPatch
):
    stack.env |= {"LEASE_SECONDS": "2", "BEAT_SECONDS": "0.5"}
    orders = stack.base / "orders"
    stack.env["THREADWORK_DIE"] = str(orders)
    orders.write_text("stop advance.claimed")
    stack.up("steps.a")
    flow = factories.workflow(
        home, factories.call("one", "witness", args={"line": "one:{{run.id}}"})
    )
    run = spawn_run(flow).run
    stack.wait(lambda: Run.objects.get(pk=run.pk).state == "running")
    stack.wait(lambda: Run.objects.filter(pk=run.pk, held_until__lt=Now()).exists())
    held, go, mended = threading.Event(), threading.Event(), list[int]()
    with monkeypatch.context() as patch:
        late = held_up_sweep(patch, held, go, mended)
    stack.up("steps.b")
    assert sweep.sweep() == 1
    stack.wait(lambda: Run.objects.get(pk=run.pk).state == "completed")
    before = drive.entries(run)
    go.set()
    late.join(30)
    stack.kill("steps.a", number=signal.SIGCONT)
    after = spawn_run(flow).run
    stack.wait(lambda: brokers.settled(after))

    assert mended == [0]
    assert drive.entries(run) == before
    assert Run.objects.get(pk=run.pk).attempts == 2
    assert stack.marks() == {f"one:{run.pk}": 1, f"one:{after.pk}": 1}


def held_up_sweep(
    patch: pytest.MonkeyPatch,
    held: threading.Event,
    go: threading.Event,
    mended: list[int],
) -> threading.Thread:
    """Begin a sweep that has its list and then waits for leave to write."""
    mend = sweep.mend

    def slow(row: Any) -> bool:
        held.set()
        assert go.wait(60)
        return mend(row)

    def first() -> None:
        mended.append(sweep.sweep())
        connection.close()

    patch.setattr(sweep, "mend", slow)
    late = threading.Thread(target=first)
    late.start()
    assert held.wait(20)
    return late


# Case 31: ten sweeps at once.
@pytest.mark.django_db(transaction=True)
def test_ten_sweeps_at_once_take_each_of_a_hundred_runs_from_the_dead_once(house):
    flow = factories.workflow(house, factories.sleep())
    runs = [hands.hold(spawn_run(flow).run).id for _ in range(100)]
    hands.die()

    mended = hands.together(10, lambda number: sweep.sweep())

    assert sum(mended) == 100
    taken = Run.objects.filter(pk__in=runs, state="pending", attempts=2, crashes=1)
    assert taken.count() == 100
