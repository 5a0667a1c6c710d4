"""Work that is asked to stop: by a person, or because its worker shuts down."""

from __future__ import annotations

import signal

import pytest

from tests import drive, factories
from tests.harness import Stack
from threads import tenancy
from threads.models import House, Pulse, Turn
from workflows.models import Run
from workflows.services import cancel_run, spawn_run


@pytest.fixture
def home(stack: Stack) -> House:
    return tenancy.open_house("home", name="Home")


def state(run: Run) -> str:
    return Run.objects.values_list("state", flat=True).get(pk=run.pk)


def turn_of(run: Run) -> Turn:
    return Turn.objects.filter(thread=drive.thread_of(run)).latest("created_at")


@pytest.mark.timeout(120)
def test_a_running_command_is_stopped_soon_after_a_cancel_and_nothing_follows(
    stack: Stack, home: House
):
    stack.up("conductor", "steps", "turns.a")
    flow = factories.workflow(
        home,
        factories.command("long", f"{stack.mark('long')}; trap '' TERM; sleep 300"),
        factories.command("after", stack.mark("after")),
    )
    run = spawn_run(flow).run
    stack.wait(lambda: stack.marks())

    cancel_run(run.pk, who="alice", reason="wrong branch")

    stack.wait(lambda: state(run) == "cancelled", 20)
    assert drive.steps(run) == [("long", "cancelled")]
    assert drive.bodies(run)[-1] == "Cancelled by alice: wrong branch"
    assert len(stack.marks()) == 1


@pytest.mark.timeout(150)
def test_a_worker_that_shuts_down_hands_its_command_over_at_no_cost(
    stack: Stack, home: House
):
    stack.up("conductor", "steps", "turns.a", DRAIN_SECONDS="1")
    script = f"{stack.mark('slow')}; sleep 8; echo done"
    run = spawn_run(factories.workflow(home, factories.command("slow", script))).run
    stack.wait(lambda: stack.marks())

    stack.kill("turns.a", number=signal.SIGTERM)
    stack.wait(lambda: stack.started["turns.a"].poll() is not None, 30)
    stack.up("turns.b")

    stack.wait(lambda: state(run) == "completed", 40)
    assert turn_of(run).crashes == 0
    assert list(stack.marks().values()) == [2]
    bodies = drive.bodies(run)
    assert bodies.count("dispatch.started") == 1
    assert bodies[-3:] == ["slow\ndone", "dispatch.completed", "Completed."]


@pytest.mark.timeout(120)
def test_a_command_that_ends_while_its_worker_shuts_down_counts(
    stack: Stack, home: House
):
    stack.up("conductor", "steps", "turns.a", DRAIN_SECONDS="20")
    script = f"{stack.mark('quick')}; sleep 3; echo done"
    run = spawn_run(factories.workflow(home, factories.command("quick", script))).run
    stack.wait(lambda: stack.marks())

    stack.kill("turns.a", number=signal.SIGTERM)

    stack.wait(lambda: state(run) == "completed", 30)
    assert list(stack.marks().values()) == [1]
    stack.wait(lambda: stack.started["turns.a"].poll() is not None, 30)


@pytest.mark.timeout(120)
def test_a_role_told_to_stop_leaves_at_once_and_says_so(stack: Stack, home: House):
    roles = ("conductor", "steps", "turns", "jobs")
    stack.up(*roles)

    for name in roles:
        stack.kill(name, number=signal.SIGTERM)

    stack.wait(lambda: all(stack.started[n].poll() is not None for n in roles), 20)
    assert {stack.started[name].returncode for name in roles} == {0}
    assert not Pulse.objects.filter(dead_at=None).exists()
