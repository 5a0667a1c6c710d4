"""P6: a million settled runs and a hundred thousand parked cost the living nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from statistics import median
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

from tests import drive, factories, plans, scale
from tests.hands import go_on
from threads import gates
from threads.models import Turn
from workflows import events, sweep
from workflows.engine.conductor import Conductor
from workflows.models import Run
from workflows.services import cancel_run, look, retry_run, spawn_run

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(3000),
]
SETTLED = int(os.environ.get("SCALE_SETTLED", "1000000"))
PARKED = int(os.environ.get("SCALE_PARKED", "100000"))
BUSY = 100  # commands at work at this moment

BIG = {
    "workflows_run", "workflows_runthread", "workflows_checkpoint",
    "workflows_attempt", "workflows_event", "threads_thread", "threads_entry",
    "threads_turn", "threads_gate",
}  # fmt: skip


@pytest.fixture(autouse=True)
def calls(settings):
    settings.CALLS = {"called": "tests.hands.called"}


def everything(house, alice, slug: str) -> None:
    """Do once what the house does all day."""
    steps = (
        factories.call("count", "called", args={"value": "{{run.id}}"}),
        factories.command("work", "echo hello"),
        factories.gate("ship", "Ship it?", deadline="1h"),
        {"name": "wait", "kind": "wait_for_event", "event": f"go.{slug}"},
        factories.sleep("rest", 30),
        factories.call("last", "called", args={"value": "{{steps.work.output}}"}),
    )
    flow = factories.workflow(house, *steps, slug=slug, overlap="wait", limit=3)
    run = drive.carry(spawn_run(flow, key="k").run)
    spawn_run(flow, key="k")
    gates.decide(drive.open_gate(run).pk, person=alice, answer="approve", door="page")
    drive.carry(run)
    events.emit_event(house, f"go.{slug}", key="1")
    drive.carry(run)
    look(run.pk)
    Run.objects.filter(pk=run.pk).update(due_at=run.created_at)
    Conductor().turn_round()
    assert drive.carry(run).state == "completed"
    retry_run(run, from_step="last")
    cancel_run(drive.carry(spawn_run(flow).run).pk, by=alice)
    sweep.sweep()
    read(alice, run)


def read(alice, run: Run) -> None:
    client = Client()
    client.force_login(alice)
    for path in (
        "/",
        "/runs/",
        "/runs/?state=failed",
        "/workflows/",
        f"/runs/{run.pk}/",
    ):
        assert client.get(path).status_code == 200
    for words in (["runs"], ["show", str(run.pk)], ["why", str(run.pk)], ["list"]):
        call_command("wf", *words, "--json")


def past(house, alice) -> None:
    """Give the house its past and everybody who waits."""
    done = factories.workflow(
        house, factories.command("one"), factories.gate("two"), slug="done"
    )
    run = drive.carry(spawn_run(done).run)
    gates.decide(drive.open_gate(run).pk, person=alice, answer="approve", door="page")
    scale.multiply(drive.carry(run), SETTLED)
    waits: dict[str, dict[str, Any]] = {
        "asleep": factories.sleep("rest", 864_000),
        "asking": factories.gate("ask", deadline="10d"),
        "hoping": {"name": "w", "kind": "wait_for_event", "event": "never"},
    }
    for slug, step in waits.items():
        run = go_on(spawn_run(factories.workflow(house, step, slug=slug)).run)
        scale.multiply(run, PARKED // len(waits))
    busy = factories.workflow(house, factories.command("c"), slug="busy")
    run = go_on(spawn_run(busy).run)
    turn = drive.begun_turn(run)
    far = turn.created_at + timedelta(days=1)
    Turn.objects.filter(pk=turn.pk).update(held_until=far, due_at=far)
    scale.multiply(run, BUSY)
    scale.settle_down()


def milliseconds(act: Callable[[], object], times: int = 40) -> float:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        took.append(time.perf_counter() - began)
    return median(took) * 1000


def figures(house, slug: str) -> dict[str, float]:
    flow = factories.workflow(
        house, *(factories.call(f"s{n}", "called") for n in range(10)), slug=slug
    )
    asks = factories.workflow(house, factories.gate(), slug=f"{slug}-asks")
    conductor = Conductor()
    return {
        "ten steps": milliseconds(lambda: go_on(spawn_run(flow).run)),
        "park at a gate": milliseconds(lambda: go_on(spawn_run(asks).run)),
        "conductor": milliseconds(conductor.turn_round),
        "sweep": milliseconds(sweep.sweep, 5),
    }


def test_a_long_past_is_never_walked_through(
    house, alice, capsys: pytest.CaptureFixture[str]
):
    everything(house, alice, "warm")
    figures(house, "warm-figures")
    empty = figures(house, "empty")
    past(house, alice)
    everything(house, alice, "first")

    with plans.noted() as sent:
        everything(house, alice, "seen")

    walked = plans.walks(sent, tables=BIG)
    full = figures(house, "full")
    with capsys.disabled():
        print(f"\n{len(sent.statements)} statements, {size()} rows of runs")  # noqa: T201
        for name, took in full.items():
            print(f"{name}: {empty[name]:.2f} ms empty, {took:.2f} ms full")  # noqa: T201
    assert len(sent.statements) > 100
    assert walked == [], "\n\n".join(walked)


def size() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM workflows_run")
        return int(cursor.fetchone()[0])
