"""Cases 37, 42, 43 and 49: two clocks on one wait, cancels, recipes edited meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from tests import brokers, drive, factories, hands
from tests.harness import Stack
from threads import gates
from threads.models import Bot, Gate, House, Turn
from workflows import authoring, why
from workflows.models import Run
from workflows.services import cancel_run, look, spawn_run
from workflows.setup import open_home


@pytest.fixture
def home(stack: Stack) -> House:
    return open_home()[0]


def state(run: Run) -> str:
    return Run.objects.values_list("state", flat=True).get(pk=run.pk)


def begin(home: House, *steps: dict[str, Any], **more: Any) -> Run:
    return spawn_run(factories.workflow(home, *steps, **more)).run


# Case 37: waiting for a worker is no part of a step's time, a run's deadline is.
@pytest.mark.timeout(120)
def test_a_steps_limit_counts_work_alone_and_a_runs_deadline_all(
    stack: Stack, home: House
):
    stack.up("conductor", "steps")
    limited = begin(home, factories.command("c", "echo done", timeout=2), slug="a")
    ends = begin(home, factories.sleep("rest", 65), deadline=4, slug="b")
    stack.wait(lambda: state(ends) == "failed", 20)
    ends.refresh_from_db()
    assert (ends.attempts, ends.failure) == (
        1,
        {"step": "rest", "reason": "the run took longer than 4 s"},
    )

    stack.up("turns")

    stack.wait(lambda: state(limited) == "completed", 20)


# Case 42 (b), (f), (g), (h): what works is stopped within a bounded time; the place is
# free when it has been, and not before.
@pytest.mark.timeout(180)
def test_whatever_runs_is_stopped_soon_and_only_then_frees_its_place(
    stack: Stack, home: House
):
    stack.up("conductor", "steps", "turns")
    slow = f"{stack.mark('slow')}; sleep 60"
    flow = factories.workflow(
        home, factories.command("slow", slow), factories.command("next"), overlap="join"
    )
    for killed in (False, True):
        run = spawn_run(flow).run
        stack.wait(lambda: f"slow:{run.pk}:0" in stack.marks())  # noqa: B023
        assert spawn_run(flow).run.pk == run.pk
        cancel_run(run.pk, who="alice")
        cancel_run(run.pk, who="bob")
        if killed:
            stack.kill("turns")
            stack.start("turns")

        stack.wait(lambda: state(run) == "cancelled", 30)  # noqa: B023

        assert [name for name, _ in drive.steps(run)] == ["slow"]
        assert drive.bodies(run)[-1].startswith("Cancelled by alice")
        assert stack.marks()[f"slow:{run.pk}:0"] == 1
    other = spawn_run(flow)
    assert other.new
    cancel_run(other.run.pk, who="alice")


# Case 43: a cancel while asleep, with no worker at all; the wake-up finds it settled.
@pytest.mark.timeout(120)
def test_a_sleeper_is_cancelled_with_nobody_at_work_and_never_wakes(
    stack: Stack, home: House
):
    stack.up("conductor", "steps")
    run = begin(home, factories.sleep("long", 30 * 86_400))
    stack.wait(lambda: state(run) == "sleeping")
    stack.kill("conductor", "steps")

    assert cancel_run(run.pk, who="alice").state == "cancelled"

    before = drive.entries(run)
    stack.start("conductor", "steps")
    after = begin(home, factories.call("x", "witness", args={"line": "x"}), slug="x")
    stack.wait(lambda: brokers.settled(after))
    assert drive.entries(run) == before


# Case 49: everything about a recipe changes while its run waits, and all is restarted.
@pytest.mark.timeout(120)
def test_a_run_that_waits_ends_by_the_plan_it_was_born_with(stack: Stack, home: House):
    alice = factories.member(home, "alice")
    stack.up("conductor", "steps")
    steps = [
        factories.call(name, "witness", args={"line": f"{name}:{{{{run.id}}}}"})
        for name in ("one", "three", "four")
    ]
    flow = factories.workflow(home, steps[0], factories.gate("two"), *steps[1:])
    run = spawn_run(flow).run
    stack.wait(lambda: state(run) == "waiting")
    added = factories.call("added", "witness", args={"line": "added"})
    factories.workflow(home, added, steps[0], steps[2], name="Other", schedule="@daily")
    changed = spawn_run(flow).run
    stack.wait(lambda: brokers.settled(changed))
    authoring.delete_workflow(flow)
    stack.kill("conductor", "steps")
    stack.start("conductor", "steps")

    gate = Gate.objects.get(thread=drive.thread_of(run), state="open")
    gates.decide(gate.pk, person=alice, answer="approve", door="page")

    stack.wait(lambda: state(run) == "completed")
    assert [name for name, _ in drive.steps(run)] == ["one", "two", "three", "four"]
    assert [name for name, _ in drive.steps(changed)] == ["added", "one", "four"]
    mine = [line for line in stack.marks() if str(run.pk) in line]
    assert sorted(mine) == sorted(f"{n}:{run.pk}" for n in ("one", "three", "four"))
    assert hands.wait_of(run).awaiting is False


# Case 49: the bot is changed and disabled while its run waits, and all is restarted.
@pytest.mark.timeout(120)
def test_a_run_whose_bot_nobody_knows_any_more_goes_on_once_somebody_does(
    stack: Stack, home: House
):
    alice = factories.member(home, "alice")
    roles = ("conductor", "steps", "turns")
    stack.up(*roles)
    last = factories.call("last", "witness", args={"line": "last"})
    run = begin(home, factories.gate("ask"), factories.prompt("look"), last)
    stack.wait(lambda: state(run) == "waiting")
    bots = Bot.objects.filter(house=home)
    bots.update(handle="renamed", instructions="Say nothing.", runtime="ghost")
    stack.kill(*roles)
    stack.up(*roles)

    gates.decide(drive.open_gate(run).pk, person=alice, answer="yes", door="page")
    stack.wait(lambda: Turn.objects.filter(needs="ghost", state="pending").exists())
    stack.wait(lambda: "ghost" in why.in_words(Run.objects.get(pk=run.pk)))
    bots.update(runtime="scripted")
    stack.wait(lambda: look(run.pk))  # as whoever opens its page

    stack.wait(lambda: state(run) == "completed")
    assert [name for name, _ in drive.steps(run)] == ["ask", "look", "last"]
    assert stack.marks() == {"last": 1}
