"""Case 46: thirty starts at one moment, by every door, are one run where one may be."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import brokers, factories, hands
from tests.acceptance.doors import Browser, answers, owner
from tests.harness import ROOT, Stack
from threads.models import House
from workflows import slots
from workflows.models import Run, Seat, Workflow
from workflows.services import Start, spawn_run
from workflows.setup import open_home


@pytest.fixture
def home(stack: Stack) -> House:
    return open_home()[0]


def by_command(stack: Stack, slug: str) -> str:
    ended = subprocess.run(
        [sys.executable, "manage.py", "wf", "spawn", slug],
        cwd=ROOT,
        env=stack.env,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return ended.stdout


@pytest.mark.timeout(180)
def test_thirty_starts_by_every_door_are_one_run(stack: Stack, home: House):
    webs = [f"web.{number}" for number in range(4)]
    stack.start(*webs)
    stack.up("conductor", "steps")
    for web in webs:
        stack.wait(lambda: answers(stack.url(web)), 30, f"{web} is silent")  # noqa: B023
    browsers = [Browser(owner(home), stack.url(web)) for web in webs]
    flow = factories.workflow(
        home, factories.gate(), overlap="join", schedule="@hourly", slug="one"
    )
    Workflow.objects.filter(pk=flow.pk).update(next_slot_at=flow.created_at)

    def start(number: int) -> str:
        if number < 3:
            return by_command(stack, "one")
        if number < 12:
            return browsers[number % 4].press("one")
        if number == 12:
            slots.fire_due(flow.pk)
            return str(Run.objects.get(workflow=flow).pk)
        return str(spawn_run(flow).run.pk)

    told = hands.together(30, start)

    run = Run.objects.get(workflow=flow)
    assert all(str(run.pk) in words for words in told)
    assert Seat.objects.get().run_id == run.pk


@pytest.mark.timeout(120)
def test_ten_workflows_started_at_once_are_ten_runs(stack: Stack, home: House):
    stack.up("conductor", "steps")
    flows = [
        factories.workflow(home, factories.gate(), overlap="join", slug=f"w{n}")
        for n in range(10)
    ]

    hands.together(30, lambda n: spawn_run(flows[n % 10], start=Start()))

    assert Run.objects.count() == 10
    stack.wait(lambda: Run.objects.filter(state="waiting").count() == 10)


@pytest.mark.timeout(120)
def test_a_start_at_the_moment_a_run_ends_is_never_lost(stack: Stack, home: House):
    stack.up("conductor", "steps.a", "steps.b")
    step = factories.call("x", "witness", args={"line": "x:{{run.id}}"})
    flow = factories.workflow(home, step, overlap="join", slug="quick")

    told = hands.together(8, lambda n: [spawn_run(flow).run for _ in range(15)])

    runs = {run.pk: run for mine in told for run in mine}
    stack.wait(lambda: brokers.settled(*runs.values()))
    assert set(Run.objects.values_list("state", flat=True)) == {"completed"}
    assert {run.pk for run in Run.objects.all()} == set(runs)
    assert stack.marks() == {f"x:{pk}": 1 for pk in runs}
