"""Cancel: settled in the request where nothing executes, stamped where it does (B15, B16)."""

from __future__ import annotations

import pytest

from tests import drive, factories, hands
from threads import gates
from threads.exceptions import GateClosed
from threads.locking import locked
from threads.models import Gate, Turn
from threads.runtime.sandbox.protocol import Stop
from threads.runtime.watch import Watch
from workflows import documents, seams
from workflows.engine import advance
from workflows.exceptions import RunSettled
from workflows.models import Attempt, Checkpoint, Event, Run, Seat
from workflows.services import cancel_run, look, retry_run, spawn_run


def start(house, *steps, **more):
    return hands.go_on(spawn_run(factories.workflow(house, *steps, **more)).run)


PARKED = [
    factories.sleep("rest"),
    factories.gate("ship"),
    factories.command("build"),
    factories.prompt("look"),
]


def test_a_run_that_has_not_begun_is_cancelled_in_the_call(house, alice):
    run = spawn_run(factories.workflow(house, factories.gate("ship"))).run

    cancelled = cancel_run(run.pk, by=alice, reason="changed my mind")

    assert cancelled.state == "cancelled"
    assert drive.bodies(run)[-1] == "Cancelled by alice: changed my mind"
    assert hands.go_on(run).state == "cancelled"
    assert len(drive.bodies(run)) == 2


@pytest.mark.parametrize("step", PARKED, ids=lambda step: step["kind"])
def test_a_parked_run_is_cancelled_in_the_call(house, alice, step):
    run = start(house, step, overlap="join")

    cancelled = cancel_run(run.pk, by=alice)

    assert cancelled.state == "cancelled"
    assert (cancelled.due_at, cancelled.ready_at, cancelled.failure) == (
        None,
        None,
        None,
    )
    assert drive.steps(run) == [(step["name"], "cancelled")]
    assert drive.bodies(run)[-1] == "Cancelled by alice."
    assert not hands.wait_of(run).awaiting
    assert not Gate.objects.filter(state="open").exists()
    assert not Turn.objects.active().exists()
    assert not Seat.objects.exists()
    assert Attempt.objects.get(run=run).ended == "settled"


def test_a_held_back_run_is_cancelled_in_the_call(house):
    flow = factories.workflow(house, factories.gate("ship"))
    hands.sql("UPDATE workflows_workflow SET paused = true")
    run = spawn_run(flow).run
    assert hands.go_on(run).state == "pending"

    assert cancel_run(run.pk).state == "cancelled"


def test_a_turn_that_runs_is_asked_to_stop(house, alice):
    run = start(house, factories.command("build"))
    turn = hands.take(run)

    asked = cancel_run(run.pk, by=alice)

    assert asked.state == "waiting"
    assert drive.bodies(run)[-1] == (
        "alice asked to cancel; what runs now is being stopped."
    )
    assert Watch(turn).stop() is Stop.CANCEL
    assert documents.run(asked)["waiting_for"]["kind"] == "cancel"


def test_asking_twice_says_it_once(house, alice, bob):
    run = start(house, factories.command("build"))
    hands.take(run)
    cancel_run(run.pk, by=alice)
    said = drive.bodies(run)

    cancel_run(run.pk, by=bob)

    assert drive.bodies(run) == said


def test_a_turn_that_ends_first_keeps_its_outcome_and_the_run_is_cancelled(
    house, alice
):
    run = start(house, factories.command("build"), factories.command("ship"))
    turn = hands.take(run)
    cancel_run(run.pk, by=alice)

    assert hands.end(turn, output="built")

    run.refresh_from_db()
    turn.refresh_from_db()
    assert (turn.state, run.state) == ("succeeded", "cancelled")
    assert drive.steps(run) == [("build", "completed")]
    assert Event.objects.get().payload["state"] == "completed"
    assert drive.bodies(run)[-2:] == ["dispatch.completed", "Cancelled by alice."]


def test_a_turn_that_fails_first_leaves_a_cancelled_run_without_a_failure(house):
    run = start(house, factories.command("build", retries={"limit": 5, "delay": 1}))
    turn = hands.take(run)
    cancel_run(run.pk)

    hands.end(turn, status=2)

    run.refresh_from_db()
    assert (run.state, run.failure) == ("cancelled", None)
    assert drive.steps(run) == [("build", "failed")]


def test_a_run_in_hand_is_stamped_and_stops_at_its_next_record(house, alice, calls):
    flow = factories.workflow(
        house, factories.call("one", "work"), factories.call("two", "work")
    )
    run = spawn_run(flow).run
    held = hands.hold(run)

    assert cancel_run(run.pk, by=alice).state == "running"
    assert Run.objects.get().cancel_asked_at is not None
    advance.carry(held, end=float("inf"))

    run.refresh_from_db()
    assert run.state == "cancelled"
    assert drive.steps(run) == [("one", "completed")]
    assert len(calls.seen) == 1


@pytest.mark.parametrize("step", PARKED, ids=lambda step: step["kind"])
def test_a_run_asked_to_cancel_in_hand_never_parks(house, alice, step):
    run = spawn_run(factories.workflow(house, step)).run
    held = hands.hold(run)
    cancel_run(run.pk, by=alice)

    advance.carry(held, end=float("inf"))

    run.refresh_from_db()
    assert run.state == "cancelled"
    assert not Turn.objects.exists()
    assert not Gate.objects.exists()
    assert drive.bodies(run)[1:] == [
        "alice asked to cancel; what runs now is being stopped.",
        "Cancelled by alice.",
    ]


def test_a_call_with_tries_left_is_recorded_and_not_tried_again(house, alice, calls):
    calls.faults = 9
    step = factories.call("work", "work", retries={"limit": 5, "delay": 1})
    run = spawn_run(factories.workflow(house, step)).run
    held = hands.hold(run)
    cancel_run(run.pk, by=alice)

    advance.carry(held, end=float("inf"))

    run.refresh_from_db()
    assert (run.state, run.failure) == ("cancelled", None)
    assert drive.steps(run) == [("work", "failed")]
    assert len(calls.seen) == 1


def test_a_cancelled_run_whose_worker_died_is_settled_by_the_next_look(house, alice):
    run = spawn_run(factories.workflow(house, factories.gate("ship"))).run
    hands.hold(run)
    cancel_run(run.pk, by=alice)
    hands.die()

    assert look(run.pk)

    run.refresh_from_db()
    assert run.state == "cancelled"
    assert drive.bodies(run)[-1] == "Cancelled by alice."


def test_a_cancelled_turn_whose_worker_died_is_settled_by_the_next_look(house):
    run = start(house, factories.command("build"))
    hands.take(run)
    cancel_run(run.pk)
    hands.sql("UPDATE threads_turn SET cancel_asked_at = now()")
    hands.die("worker-turns")

    assert look(run.pk)

    run.refresh_from_db()
    assert run.state == "cancelled"
    assert drive.steps(run) == [("build", "cancelled")]


def test_what_has_settled_is_not_cancelled(house, alice):
    run = start(house, factories.gate("ship"))
    gates.speak(drive.thread_of(run), person=alice, text="yes")
    hands.go_on(run)

    with pytest.raises(RunSettled, match="Completed at"):
        cancel_run(run.pk, by=alice)


def test_who_cancels_what_is_cancelled_is_told_who_was_first(house, alice, bob):
    run = start(house, factories.gate("ship"))
    cancel_run(run.pk, by=alice)

    with pytest.raises(RunSettled, match=r"Cancelled at .* by alice\."):
        cancel_run(run.pk, by=bob)


def test_a_withdrawn_question_says_so(house, alice, bob):
    run = start(house, factories.gate("ship"))
    gate = drive.open_gate(run)
    cancel_run(run.pk, by=alice)

    with pytest.raises(GateClosed, match="withdrawn"):
        gates.decide(gate.pk, person=bob, answer="approve", door="page")


def test_a_retry_of_a_cancelled_run_does_what_was_cancelled(house, alice):
    run = start(house, factories.gate("ok"), factories.command("build"))
    gates.speak(drive.thread_of(run), person=alice, text="yes")
    hands.go_on(run)

    again = hands.go_on(retry_run(cancel_run(run.pk)).run)

    assert drive.steps(again) == [("ok", "completed"), ("build", "waiting")]


@pytest.mark.django_db(transaction=True)
def test_an_answer_and_a_cancel_at_one_moment_leave_one_outcome(house, alice, bob):
    runs = [start(house, factories.gate("ship"), slug=f"flow-{n}") for n in range(6)]
    asked = [drive.open_gate(run).pk for run in runs]

    def act(number):
        at = number // 2
        try:
            if number % 2:
                cancel_run(runs[at].pk, by=bob)
            else:
                gates.decide(asked[at], person=alice, answer="approve", door="page")
        except (GateClosed, RunSettled) as refused:
            return str(refused)
        return ""

    hands.together(12, act)

    for run, gate in zip(runs, asked, strict=True):
        outcome = Gate.objects.get(pk=gate).outcome
        hands.go_on(run)
        assert run.state == "cancelled"
        wanted = {"approved": "completed", "withdrawn": "cancelled"}[outcome]
        assert drive.steps(run) == [("ship", wanted)]


@pytest.mark.django_db(transaction=True)
def test_an_end_and_a_cancel_at_one_moment_settle_the_run_once(house, alice):
    steps = (factories.command("build"), factories.gate("ship"))
    runs = [start(house, *steps, slug=f"flow-{number}") for number in range(5)]
    turns = [hands.take(run) for run in runs]

    def act(number):
        at = number // 2
        if number % 2:
            return cancel_run(runs[at].pk, by=alice)
        return hands.end(turns[at], output="built")

    hands.together(10, act)

    for run in runs:
        assert hands.go_on(run).state == "cancelled"
        assert drive.steps(run)[0] == ("build", "completed")
        numbers = [number for number, *_ in drive.entries(run)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert drive.bodies(run).count("Cancelled by alice.") == 1


def test_a_finish_of_a_cancelled_run_moves_nothing(house):
    run = start(house, factories.command("build"))
    wait = hands.wait_of(run)
    cancel_run(run.pk)

    with locked(drive.thread_of(run)) as thread:
        assert not seams.finish(thread, wait, seams.Back("completed"))

    assert Checkpoint.objects.get().state == "cancelled"
