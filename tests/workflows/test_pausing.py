"""Pause and resume a run: what executes ends, nothing further begins."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests import drive, factories, hands
from threads import gates
from workflows import authoring, documents, events, why
from workflows.engine import advance
from workflows.engine.conductor import Conductor
from workflows.exceptions import NotPaused, RunSettled, RunStopping
from workflows.models import Run, Seat
from workflows.services import cancel_run, look, pause_run, resume_run, spawn_run

pytestmark = pytest.mark.django_db(transaction=True)


def begin(house, *steps, **more):
    return hands.go_on(spawn_run(factories.workflow(house, *steps, **more)).run)


def fresh(run):
    return Run.objects.get(pk=run.pk)


def test_a_paused_run_begins_no_step_and_goes_on_when_it_is_resumed(
    house, alice, calls
):
    flow = factories.workflow(house, factories.call("one", "work"))
    run = spawn_run(flow).run
    pause_run(run.pk, by=alice, reason="the site is down")
    assert hands.go_on(run).state == "pending"
    assert calls.seen == []

    resume_run(run.pk, by=alice)

    assert hands.go_on(run).state == "completed"
    assert drive.bodies(run)[1:3] == [
        "Paused by alice: the site is down",
        "Resumed by alice.",
    ]


def test_the_command_that_runs_goes_on_to_its_end_and_the_next_step_waits(house, alice):
    run = begin(house, factories.command("build"), factories.command("ship"))
    turn = hands.take(run)

    pause_run(run.pk, by=alice)
    assert hands.end(turn, output="built")

    assert hands.go_on(run).state == "pending"
    assert drive.steps(run) == [("build", "completed")]
    resume_run(run.pk)
    assert hands.go_on(run).state == "waiting"


def test_a_run_in_hand_is_let_go_after_the_step_in_hand(house, alice, calls):
    flow = factories.workflow(
        house, factories.call("one", "work"), factories.call("two", "work")
    )
    run = spawn_run(flow).run
    held = hands.hold(run)
    pause_run(run.pk, by=alice)

    advance.carry(held, end=float("inf"))

    assert (fresh(run).state, fresh(run).ready_at) == ("pending", None)
    assert drive.steps(run) == [("one", "completed")]
    assert Run.objects.get().attempts == 1


def test_an_answer_is_taken_and_nothing_further_begins(house, alice):
    run = begin(house, factories.gate("ship"), factories.command("build"))
    pause_run(run.pk, by=alice)

    gates.speak(drive.thread_of(run), person=alice, text="yes")

    assert hands.go_on(run).state == "pending"
    assert drive.steps(run) == [("ship", "completed")]


def test_an_event_is_taken_and_used_after_the_pause(house):
    wait = {"name": "wait", "kind": "wait_for_event", "event": "deployed"}
    run = begin(house, wait)
    pause_run(run.pk)
    events.emit_event(house, "deployed", payload={"n": 1})
    assert hands.go_on(run).state == "pending"

    resume_run(run.pk)

    assert hands.go_on(run).state == "completed"
    assert run.steps.get().result["payload"] == {"n": 1}


def test_a_sleeper_sleeps_on_and_one_that_woke_meanwhile_goes_on(house):
    run = begin(house, factories.sleep(seconds=3600))
    pause_run(run.pk)
    assert resume_run(run.pk).state == "sleeping"
    pause_run(run.pk)
    drive.late(run, by=timedelta(hours=2))
    Conductor().wake_sleepers()
    assert (fresh(run).state, fresh(run).ready_at) == ("pending", None)

    resume_run(run.pk)

    assert hands.go_on(run).state == "completed"


@pytest.mark.parametrize(
    "step", [factories.gate(), factories.command("work"), factories.sleep()]
)
def test_a_paused_run_can_be_cancelled(house, alice, step):
    run = begin(house, step)
    pause_run(run.pk, by=alice)

    assert cancel_run(run.pk, by=alice).state == "cancelled"


def test_a_cancel_of_a_paused_run_whose_command_runs_is_settled_at_its_end(
    house, alice
):
    run = begin(house, factories.command("build"))
    turn = hands.take(run)
    pause_run(run.pk, by=alice)
    cancel_run(run.pk, by=alice)

    hands.end(turn)

    assert fresh(run).state == "cancelled"


def test_a_cancel_of_a_paused_run_settles_it_after_the_run_below(house, alice):
    factories.workflow(house, factories.command("work"), slug="inner")
    start = {"name": "child", "kind": "run_workflow", "workflow": "inner"}
    run = begin(house, start, slug="outer")
    child = hands.go_on(Run.objects.get(parent=run))
    turn = hands.take(child)
    pause_run(run.pk, by=alice)
    cancel_run(run.pk, by=alice)

    hands.end(turn)

    assert hands.go_on(run).state == "cancelled"


def test_the_deadline_of_a_paused_run_still_counts(house):
    run = begin(house, factories.gate(), deadline="1h")
    pause_run(run.pk)
    hands.sql("UPDATE workflows_run SET deadline_at = now() - interval '1 second'")

    Conductor().stop_overdue()

    assert fresh(run).state == "failed"


def test_pausing_twice_says_it_once(house, alice, bob):
    run = begin(house, factories.gate())
    pause_run(run.pk, by=alice)
    said = drive.bodies(run)

    assert pause_run(run.pk, by=bob).paused_words == "alice\n"

    assert drive.bodies(run) == said


def test_what_is_not_paused_is_not_resumed(house):
    run = begin(house, factories.gate())

    with pytest.raises(NotPaused):
        resume_run(run.pk)


def test_what_has_ended_is_neither_paused_nor_resumed(house, calls):
    run = begin(house, factories.call("one", "work"))

    for act in (pause_run, resume_run):
        with pytest.raises(RunSettled, match="Completed at"):
            act(run.pk)


def test_what_is_being_stopped_is_not_paused(house):
    run = begin(house, factories.command("build"))
    hands.take(run)
    cancel_run(run.pk)

    with pytest.raises(RunStopping):
        pause_run(run.pk)


def test_a_resume_begins_nothing_that_the_workflow_or_a_seat_holds_back(house):
    flow = factories.workflow(house, factories.gate(), overlap="wait")
    first = hands.go_on(spawn_run(flow).run)
    second = spawn_run(flow).run
    pause_run(second.pk)
    assert resume_run(second.pk).ready_at is None

    cancel_run(first.pk)
    assert hands.go_on(second).state == "waiting"

    authoring.pause_workflow(flow)
    third = spawn_run(flow).run
    pause_run(third.pk)
    assert resume_run(third.pk).ready_at is None


def test_a_run_paused_in_the_line_takes_its_seat_and_begins_when_resumed(house):
    flow = factories.workflow(house, factories.gate(), overlap="wait")
    first = hands.go_on(spawn_run(flow).run)
    second = spawn_run(flow).run
    pause_run(second.pk)

    cancel_run(first.pk)

    assert Seat.objects.get().run_id == second.pk
    assert hands.go_on(second).state == "pending"
    resume_run(second.pk)
    assert hands.go_on(second).state == "waiting"


def test_a_worker_that_dies_leaves_a_paused_run_paused(house, calls):
    run = spawn_run(factories.workflow(house, factories.call("one", "work"))).run
    hands.hold(run)
    pause_run(run.pk)
    hands.die()

    assert look(run.pk)

    assert (fresh(run).state, fresh(run).ready_at) == ("pending", None)


def test_who_paused_it_and_why_is_told(house, alice):
    run = begin(house, factories.gate("ship"))
    pause_run(run.pk, by=alice, reason="fire drill")

    words = why.in_words(fresh(run))
    assert words.startswith("Waiting for anyone in the house to answer “ship”")
    assert "Paused by alice since" in words
    assert "(fire drill): no further step begins." in words
    line = documents.run_line(fresh(run))["reason"]
    assert line.endswith("“ship”, paused by alice: fire drill")

    gates.speak(drive.thread_of(run), person=alice, text="yes")
    waits = why.waiting_for(fresh(run))
    assert waits is not None
    assert waits["kind"] == "paused"
    assert documents.run_line(fresh(run))["reason"] == "paused by alice: fire drill"


def test_pausing_while_workers_take_runs_lets_none_go_further_than_its_step(
    house, calls
):
    steps = [factories.call(f"s{number}", "work") for number in range(6)]
    flow = factories.workflow(house, *steps)
    runs = [spawn_run(flow).run for _ in range(8)]

    def act(number):
        if number % 2:
            pause_run(runs[number // 2].pk)
            return 0
        return advance.advance(pool="steps", holder=drive.holder(f"worker-{number}"))

    for name in range(0, 16, 2):
        drive.holder(f"worker-{name}")
    hands.together(16, act)

    for run in runs:
        now = fresh(run)
        assert now.state in {"pending", "completed"}
        if now.state == "pending":
            assert (now.holder, now.ready_at) == (None, None)
            resume_run(run.pk)
        assert hands.go_on(run).state == "completed"
        assert [name for name, _ in drive.steps(run)] == [s["name"] for s in steps]
    assert len(calls.seen) == 6 * 8


def test_a_pause_and_an_end_at_one_moment_lose_nothing(house):
    steps = (factories.command("build"), factories.gate("ship"))
    runs = [begin(house, *steps, slug=f"flow-{number}") for number in range(5)]
    turns = [hands.take(run) for run in runs]

    def act(number):
        at = number // 2
        return pause_run(runs[at].pk) if number % 2 else hands.end(turns[at])

    hands.together(10, act)

    for run in runs:
        assert hands.go_on(run).state == "pending"
        assert drive.steps(run) == [("build", "completed")]
        resume_run(run.pk)
        assert hands.go_on(run).state == "waiting"


def test_a_pause_a_resume_and_a_wake_at_one_moment_leave_it_where_the_last_said(house):
    runs = [begin(house, factories.sleep(), slug=f"flow-{n}") for n in range(4)]
    for run in runs:
        pause_run(run.pk)
        drive.late(run, by=timedelta(hours=2))

    def act(number):
        if number % 2:
            return Conductor().wake_sleepers()
        return resume_run(runs[number // 2].pk)

    hands.together(8, act)

    for run in runs:
        assert hands.go_on(run).state == "completed"


def test_a_pause_and_a_cancel_at_one_moment_end_cancelled(house):
    runs = [begin(house, factories.gate(), slug=f"flow-{n}") for n in range(5)]

    def act(number):
        run = runs[number // 2]
        try:
            pause_run(run.pk) if number % 2 else cancel_run(run.pk)
        except RunSettled:
            return False
        return True

    hands.together(10, act)

    assert {fresh(run).state for run in runs} == {"cancelled"}
