"""Cases 41 and 42: a cancel in any state, and workers that are told to leave."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests import brokers, drive, factories, hands
from tests.harness import Stack
from threads import gates
from threads.models import Gate, House, Turn, TurnMessage
from workflows.exceptions import RunSettled
from workflows.models import Run
from workflows.services import cancel_run, spawn_run
from workflows.setup import open_home


@pytest.fixture
def home(stack: Stack) -> House:
    return open_home()[0]


def state(run: Run) -> str:
    return Run.objects.values_list("state", flat=True).get(pk=run.pk)


def gone(stack: Stack, name: str) -> bool:
    return stack.started[name].poll() is not None


# Case 42 (f): in the second of three prompts, while a tool of the bot runs.
@pytest.mark.timeout(120)
def test_a_bot_is_stopped_in_the_middle_of_its_turn_and_no_later_one_begins(
    stack: Stack, home: House
):
    stack.up("conductor", "steps", "turns")
    flow = factories.workflow(
        home,
        factories.command("lay", "mkfifo trap.py"),
        factories.prompt("one"),
        factories.prompt("two", "trap.py:3: AssertionError"),
        factories.prompt("three"),
        overlap="join",
    )
    run = spawn_run(flow).run
    calls = TurnMessage.objects.filter(
        turn__instruction__startswith="trap.py", kind="call"
    )
    stack.wait(calls.exists)
    assert spawn_run(flow).run.pk == run.pk

    cancel_run(run.pk, who="alice")

    stack.wait(lambda: state(run) == "cancelled", 15)
    turn = Turn.objects.get(instruction__startswith="trap.py")
    assert turn.state == "cancelled"
    assert drive.steps(run)[1:] == [("one", "completed"), ("two", "cancelled")]
    assert drive.bodies(run)[-1] == "Cancelled by alice."
    again = spawn_run(flow)
    assert again.new
    cancel_run(again.run.pk, who="alice")


def end_of(home: House, run: Run, person: Any) -> None:
    """Answer too late: what is said now is a comment and nothing more."""
    before = state(run)
    gates.speak(drive.thread_of(run), person=person, text="yes")
    assert state(run) == before
    assert not Gate.objects.filter(thread=drive.thread_of(run), state="open").exists()


# Case 42 (a), (d), (e), (i): what nobody has in hand is settled by the cancel itself.
@pytest.mark.timeout(120)
def test_what_is_in_nobodys_hands_is_cancelled_at_once_and_its_place_is_free(
    stack: Stack, home: House
):
    alice = factories.member(home, "alice")
    rest, ask = factories.sleep("rest", 86_400), factories.gate("ask")
    last = factories.call("last", "witness", args={"line": "last:{{run.id}}"})
    kinds = {"asleep": [rest, last], "asked": [ask, last]}
    flows = {
        slug: factories.workflow(home, *steps, slug=slug, overlap="join")
        for slug, steps in kinds.items()
    }
    queued = spawn_run(flows["asked"]).run
    assert cancel_run(queued.pk, who="alice").state == "cancelled"
    stack.up("conductor", "steps")
    runs = {slug: spawn_run(flow).run for slug, flow in flows.items()}
    stack.wait(lambda: state(runs["asleep"]) == "sleeping")
    stack.wait(lambda: state(runs["asked"]) == "waiting")

    for slug, run in runs.items():
        assert cancel_run(run.pk, who="alice").state == "cancelled"
        end_of(home, run, alice)
        assert spawn_run(flows[slug]).new

    done = factories.workflow(home, last, slug="done", overlap="join")
    ended = spawn_run(done).run
    stack.wait(lambda: state(ended) == "completed")
    with pytest.raises(RunSettled):
        cancel_run(ended.pk, who="alice")
    assert spawn_run(done).new
    assert state(ended) == "completed"
    stack.wait(lambda: stack.marks().get(f"last:{ended.pk}"))
    assert not [run for run in [*runs.values(), queued] if drive.steps(run)[1:]]


# Case 41: a worker leaves on a deploy, with its hands full and more tickets behind.
@pytest.mark.timeout(120)
def test_a_worker_that_leaves_with_its_hands_full_drops_nothing(
    stack: Stack, home: House
):
    stack.up("conductor", "steps", "turns.a")
    step = factories.command("work", f"sleep 1; {stack.mark('work')}")
    flow = factories.workflow(home, step)
    runs = [spawn_run(flow).run for _ in range(20)]
    stack.wait(lambda: Turn.objects.filter(state="running").count() >= 6)

    stack.kill("turns.a", number=signal.SIGTERM)
    stack.start("turns.b")

    stack.wait(lambda: gone(stack, "turns.a"), 20)
    stack.wait(lambda: brokers.settled(*runs), 40)
    assert set(Run.objects.values_list("state", flat=True)) == {"completed"}
    assert stack.marks() == {f"work:{run.pk}:0": 1 for run in runs}
    assert {turn.crashes for turn in Turn.objects.all()} == {0}


@pytest.mark.timeout(120)
def test_a_cancel_reaches_a_command_whose_worker_is_leaving(stack: Stack, home: House):
    stack.up("conductor", "steps", "turns", DRAIN_SECONDS="40")
    script = f"{stack.mark('slow')}; sleep 60"
    flow = factories.workflow(home, factories.command("slow", script))
    run = spawn_run(flow).run
    stack.wait(stack.marks)
    stack.kill("turns", number=signal.SIGTERM)
    log = stack.base / "turns.log"
    stack.wait(lambda: "shutdown" in log.read_text().lower(), 10)
    assert not gone(stack, "turns")

    cancel_run(run.pk, who="alice")

    stack.wait(lambda: state(run) == "cancelled", 15)
    stack.wait(lambda: gone(stack, "turns"), 15)
    assert hands.wait_of(run).awaiting is False
    assert Turn.objects.get().state == "cancelled"
