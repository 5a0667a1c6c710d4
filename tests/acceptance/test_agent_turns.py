"""Many turns of a slow model at once, and one that is stopped in mid-request (B16)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests import drive, factories, models
from tests.harness import ROLES, Stack
from tests.models import Reply, Served, call
from threads import tenancy
from threads.models import Bot, House, Turn
from workflows import documents
from workflows.models import Run
from workflows.services import cancel_run, spawn_run

SLOW = 2.0  # seconds of the model before it answers


@pytest.fixture
def home(stack: Stack) -> House:
    house = tenancy.open_house("home", name="Home")
    tenancy.set_secret(house, "MODEL_KEY", "k")
    Bot.objects.filter(house=house).update(runtime="agent", model="fake:fake-1")
    return house


@pytest.fixture
def slow(stack: Stack) -> Iterator[Served]:
    replies = [Reply(calls=(call("report", result={}),), seconds=SLOW), Reply("Done.")]
    with models.serve("openai-chat", lambda number: replies[number]) as served:
        stack.env["MODELS"] = served.setting
        yield served


def states(runs: list[Run]) -> set[str]:
    return set(
        Run.objects.filter(pk__in=[run.pk for run in runs]).values_list(
            "state", flat=True
        )
    )


@pytest.mark.timeout(150)
def test_forty_turns_of_a_slow_model_are_all_answered_each_in_order(
    stack: Stack, home: House, slow: Served, monkeypatch: Any
):
    crowd(stack, home, slow, monkeypatch, count=40)


@pytest.mark.timeout(90)
def test_a_request_in_flight_is_let_go_soon_after_a_cancel(stack: Stack, home: House):
    with models.serve(
        "openai-chat", lambda number: Reply("Late.", seconds=60)
    ) as served:
        stack.env["MODELS"] = served.setting
        stack.up("conductor", "steps", "turns")
        run = spawn_run(factories.workflow(home, factories.prompt("look"))).run
        stack.wait(lambda: served.requests, 40)

        cancel_run(run.pk, who="alice")

        stack.wait(lambda: states([run]) == {"cancelled"}, 30)
        assert Turn.objects.get().state == "cancelled"
        assert len(served.requests) == 1


@pytest.mark.timeout(120)
def test_words_are_shown_as_they_are_written_and_a_cancel_closes_the_line(
    stack: Stack, home: House
):
    endless = Reply("All is well. " * 20_000, piece=0.2)
    with models.serve("openai-chat", lambda number: endless) as served:
        stack.env["MODELS"] = served.setting
        stack.up("conductor", "steps", "turns")
        run = spawn_run(factories.workflow(home, factories.prompt("look"))).run

        stack.wait(lambda: "All is well." in so_far(run), 40)
        cancel_run(run.pk, who="alice")

        stack.wait(lambda: states([run]) == {"cancelled"}, 30)
        stack.wait(lambda: served.gone == 1, 10)
        assert len(served.requests) == 1


@pytest.mark.timeout(120)
def test_a_worker_that_shuts_down_lets_go_of_a_slow_request_at_no_cost(
    stack: Stack, home: House
):
    waits = [60.0, 0.0]
    with models.serve(
        "openai-chat", lambda number: Reply("Done.", seconds=waits.pop(0))
    ) as served:
        stack.env["MODELS"] = served.setting
        stack.up("conductor", "steps", "turns.a", DRAIN_SECONDS="1")
        run = spawn_run(factories.workflow(home, factories.prompt("look"))).run
        stack.wait(lambda: served.requests, 40)

        stack.kill("turns.a", number=signal.SIGTERM)
        stack.wait(lambda: stack.started["turns.a"].poll() is not None, 30)
        stack.up("turns.b")

        stack.wait(lambda: states([run]) == {"completed"}, 40)
        turn = Turn.objects.get()
        assert (turn.crashes, turn.faults) == (0, 0)
        assert len(served.requests) == 2


def so_far(run: Run) -> str:
    """Return what a page shows of the step's words while they are written."""
    (step,) = documents.run(Run.objects.get(pk=run.pk))["steps"]
    return step.get("progress") or ""


def crowd(
    stack: Stack, home: House, slow: Served, monkeypatch: Any, *, count: int
) -> None:
    """Let so many turns wait for the model at once, in one worker."""
    argv = [word if word != "8" else str(count) for word in ROLES["turns"]]
    monkeypatch.setitem(ROLES, "turns", argv)
    stack.up("conductor", "steps", "turns")
    flow = factories.workflow(home, factories.prompt("look"))

    runs = [spawn_run(flow).run for _ in range(count)]

    stack.wait(lambda: states(runs) == {"completed"}, 100)
    assert len(slow.requests) == 2 * count
    assert slow.refused == []
    for run in runs:
        entries = drive.entries(run)
        assert [number for number, *_ in entries] == list(range(1, len(entries) + 1))
        assert drive.bodies(run)[1:] == [
            "Look into it",
            "dispatch.started",
            "Done.",
            "dispatch.completed",
            "Completed.",
        ]
