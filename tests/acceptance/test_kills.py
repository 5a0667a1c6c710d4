"""A7: killed anywhere, the run goes on and its thread reads as if nothing had happened."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests import drive, factories
from tests.harness import Stack
from threads import gates, tenancy
from threads.exceptions import GateClosed
from threads.models import Gate
from workflows.models import Checkpoint, Run
from workflows.services import Start, look, spawn_run

STEPS = "steps.a", "steps.b"
TURNS = "turns.a", "turns.b"
ALL = ("conductor", *STEPS, *TURNS)

# One of each role; each place of each role stands in test_kill_matrix.
POINTS = [
    "advance.claimed",
    "advance.recorded",
    "send.committed",
    "finish.committed@worker-turns",
    "turn.claimed",
    "turn.tool",
    "turn.settled",
    "wake.written",
    "advance.claimed:2\nconductor.stamped",
    "advance.called\nconductor.topping",
]


def recipe(stack: Stack) -> list[dict[str, Any]]:
    return [
        factories.command("first", stack.mark("first")),
        factories.sleep("rest", 0.4),
        factories.prompt("look", "Look around.\nnote.py:3: AssertionError"),
        factories.gate("ship", "Ship it?"),
        factories.call("count", "witness", args={"line": "count:{{run.id}}"}),
        factories.command("last", stack.mark("last")),
    ]


def begin(stack: Stack, slug: str) -> tuple[Run, Any]:
    house = tenancy.open_house("home", name="Home")
    alice = factories.member(house, "alice")
    flow = factories.workflow(house, *recipe(stack), slug=slug)
    return spawn_run(flow, start=Start(by=alice)).run, alice


def answer_when_asked(run: Run, person: Any) -> bool:
    """Answer the run's question as soon as it stands; True once the run has ended."""
    for gate in Gate.objects.filter(thread=drive.thread_of(run), state="open"):
        try:
            gates.decide(gate.pk, person=person, answer="approve", door="page")
        except GateClosed:
            continue
    return Run.objects.get(pk=run.pk).state in Run.SETTLED


def narrative(run: Run) -> list[tuple[int, str, str, str]]:
    """Return the thread without what names the run itself."""
    return [
        (number, author, kind, body.replace(str(run.pk), "RUN"))
        for number, author, kind, body in drive.entries(run)
    ]


@pytest.fixture
def undisturbed(stack: Stack) -> list[tuple[int, str, str, str]]:
    stack.env["THREADWORK_DIE"] = str(stack.base / "orders")
    stack.up(*ALL)
    run, alice = begin(stack, "calm")
    carry_through(stack, run, alice)
    assert Run.objects.get(pk=run.pk).state == "completed"
    return narrative(run)


@pytest.mark.timeout(400)
def test_a_kill_at_any_named_point_leaves_no_trace_in_the_thread(
    stack: Stack, undisturbed: list[tuple[int, str, str, str]]
):
    for point in POINTS:
        (stack.base / "orders").write_text(point)
        run, alice = begin(stack, f"point-{POINTS.index(point)}")

        carry_through(stack, run, alice, why=point)

        assert not (stack.base / "orders").exists(), f"nothing died at {point}"
        assert Run.objects.get(pk=run.pk).state == "completed", point
        assert narrative(run) == undisturbed, point
        finished_once(stack, run, twice=0)


def carry_through(stack: Stack, run: Run, person: Any, why: str = "") -> None:
    stack.wait(lambda: mind(stack) or answer_when_asked(run, person), 60, why)


def mind(stack: Stack) -> bool:
    """Start again what has died, as a supervisor would."""
    for name in ALL:
        if stack.started[name].poll() is not None:
            stack.start(name)
    return False


def finished_once(stack: Stack, run: Run, *, twice: int) -> None:
    """Check the witness: each step has its line, at most so many of them twice."""
    marks = {k: n for k, n in stack.marks().items() if str(run.pk) in k}
    assert sorted(k.split(":")[0] for k in marks) == ["count", "first", "last"], marks
    assert sum(n - 1 for n in marks.values()) <= twice, marks
    assert max(marks.values()) <= 2, marks
    states = Checkpoint.objects.filter(run=run).values_list("state", flat=True)
    assert set(states) == {"completed"}


@pytest.mark.timeout(300)
def test_kills_at_random_moments_leave_no_trace_in_the_thread(
    stack: Stack, undisturbed: list[tuple[int, str, str, str]]
):
    dice = random.Random(7)  # noqa: S311  not a secret
    run, alice = begin(stack, "random")
    for number in range(10):
        names = ALL if number % 4 == 3 else (dice.choice(ALL),)
        moment = dice.random()
        answer_when_asked(run, alice)
        stack.pause(moment)
        stack.kill(*names)
        stack.start(*names)
        if Run.objects.get(pk=run.pk).state in Run.SETTLED:
            run, alice = begin(stack, f"random-{dice.random():.6f}".replace(".", "-"))

    carry_through(stack, run, alice)

    for each in Run.objects.all():
        assert each.state == "completed"
        assert narrative(each) == undisturbed
        finished_once(stack, each, twice=3)
        assert not look(each.pk)
