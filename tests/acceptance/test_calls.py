"""C11: a shop's functions and Celery tasks as durable steps, on real workers."""

from __future__ import annotations

from typing import Any

import pytest

from tests import drive, factories
from tests.harness import Stack
from threads import tenancy
from threads.models import House
from workflows.models import Run
from workflows.services import cancel_run, spawn_run

CALLS = ",".join(
    (
        "quick=quick:tests.shop.add",
        "stay=tests.shop.stay",
        "nightly=celery:tests.shop.nightly",
    )
)


@pytest.fixture
def home(stack: Stack, settings: Any) -> House:
    stack.env["CALLS"] = CALLS
    settings.CALLS = dict(entry.split("=", 1) for entry in CALLS.split(","))
    return tenancy.open_house("home", name="Home")


def state(run: Run) -> str:
    return Run.objects.values_list("state", flat=True).get(pk=run.pk)


def stays(seconds: float, **more: object) -> dict[str, object]:
    return factories.call("long", "stay", args={"seconds": seconds}, **more)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("limit", [{}, {"timeout": "1m"}])
def test_a_call_whose_worker_is_killed_begins_once_more_with_the_same_key(
    stack: Stack, home: House, limit: dict[str, str]
):
    stack.up("conductor", "steps", "turns.a")
    run = spawn_run(factories.workflow(home, stays(4, **limit))).run
    (line,) = stack.wait(stack.marks)
    stack.kill("turns.a")

    stack.start("turns.b")

    stack.wait(lambda: state(run) == "completed", 60)
    assert line == f"stay:{run.pk}:0"
    assert stack.marks() == {line: 2}
    assert drive.bodies(run)[1:] == [
        "Call stay(seconds=4)",
        "stay returned stay done",
        "Completed.",
    ]


@pytest.mark.timeout(120)
def test_a_long_call_keeps_nobody_waiting_and_ends_when_it_is_cancelled(
    stack: Stack, home: House
):
    stack.up("conductor", "steps", "turns")
    long = spawn_run(factories.workflow(home, stays(60, timeout="2m"))).run
    stack.wait(stack.marks)
    short = factories.workflow(
        home, factories.call("sum", "quick", args={"a": 1}), slug="short"
    )
    other = spawn_run(short).run
    stack.wait(lambda: state(other) == "completed", 10)
    assert state(long) == "running"

    cancel_run(long.pk, who="alice")

    stack.wait(lambda: state(long) == "cancelled", 20)


@pytest.mark.timeout(120)
def test_a_task_the_shop_has_already_is_a_step(stack: Stack, home: House):
    stack.up("conductor", "steps", "turns")
    step = factories.call("report", "nightly", args={"day": "{{payload.day}}"})
    run = spawn_run(factories.workflow(home, step), payload={"day": "Monday"}).run

    stack.wait(lambda: state(run) == "completed")

    assert run.steps.get().result == {"result": "report of Monday"}
