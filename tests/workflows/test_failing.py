"""Failure is a value: recorded once, told in one line, mended by a new run (A27-A29)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import override_settings

from tests import drive, factories, hands
from threads import gates
from threads.models import Gate, Turn
from workflows import documents, why
from workflows.exceptions import NotFound, NotReached, RunActive
from workflows.models import Attempt, Checkpoint, Event, Run
from workflows.services import Start, cancel_run, look, retry_run, spawn_run

TWICE = {"limit": 2, "delay": 60, "backoff": 2}


def start(house, *steps, **more):
    return hands.go_on(spawn_run(factories.workflow(house, *steps, **more)).run)


def crash(run):
    """Let the worker that holds the run die; the next one takes it over."""
    hands.hold(run)
    hands.die()
    assert look(run.pk)
    hands.sql("UPDATE threads_pulse SET name = name || id || random()")
    run.refresh_from_db()
    return run


def test_a_failed_step_ends_the_run_and_is_not_run_again(house):
    run = start(
        house, factories.command("test", "make test"), factories.command("ship")
    )

    hands.answer(run, output="1 failed", status=2)

    assert run.state == "failed"
    assert run.failure == {"step": "test", "reason": "exited with status 2"}
    assert Turn.objects.count() == 1
    assert drive.bodies(run)[-2:] == [
        "Skipped ship: an earlier step failed.",
        "Failed at test: exited with status 2",
    ]


def test_a_failed_call_is_a_value_too(house, calls):
    calls.faults = 1
    run = start(house, factories.call("work", "work"))

    assert run.failure == {"step": "work", "reason": "RuntimeError: the line was busy"}
    assert run.attempts == 1
    assert len(calls.seen) == 1


def test_a_call_of_what_is_not_allowed_here_fails_by_its_name(house, calls):
    flow = factories.workflow(house, factories.call("work", "work"))
    with override_settings(CALLS={}):
        run = hands.go_on(spawn_run(flow).run)

    assert run.failure == {
        "step": "work",
        "reason": "no function called “work” is allowed here",
    }
    assert calls.seen == []


def test_a_call_whose_result_cannot_be_kept_fails_in_words(house, calls):
    with override_settings(CALLS={"odd": "quick:builtins.object"}):
        run = start(house, factories.call("work", "odd"))

    assert hands.failure(run)[1].startswith("what it returned cannot be kept: ")


def test_the_list_gives_a_failed_run_one_line(house):
    run = hands.answer(start(house, factories.command("test")), status=2)

    assert documents.run_line(run)["reason"] == "test: exited with status 2"
    assert why.in_words(run).endswith("test: exited with status 2")


def test_a_crash_is_retried_and_counted(house):
    run = spawn_run(factories.workflow(house, factories.gate("ship"))).run

    crash(run)

    assert (run.state, run.attempts, run.crashes) == ("pending", 2, 1)
    assert hands.go_on(run).state == "waiting"
    log = Attempt.objects.filter(run=run).values_list("number", "ended")
    assert list(log) == [(1, "crashed"), (2, "")]


def test_crashes_at_one_step_are_bounded(house):
    flow = factories.workflow(house, factories.gate("ship"), max_attempts=3)
    run = spawn_run(flow).run

    crash(run)
    crash(run)
    assert run.state == "pending"
    crash(run)

    assert run.state == "failed"
    assert run.failure == {
        "step": "ship",
        "reason": "the worker died 3 times at this step",
    }
    assert not Attempt.objects.filter(run=run, ended="").exists()


def test_a_finished_step_starts_the_count_of_crashes_again(house, alice):
    flow = factories.workflow(
        house, factories.gate("one"), factories.gate("two"), max_attempts=2
    )
    run = spawn_run(flow).run
    hands.go_on(crash(run))
    gates.speak(drive.thread_of(run), person=alice, text="yes")

    crash(run)

    assert (run.state, run.crashes, run.attempts) == ("pending", 1, 3)


def test_a_fault_nobody_foresaw_is_a_crash_and_bounded(house, monkeypatch):
    def broken(*args, **more):
        raise ZeroDivisionError

    monkeypatch.setattr("workflows.sending.ask_people", broken)
    flow = factories.workflow(house, factories.gate("ship"), max_attempts=2)
    run = hands.go_on(spawn_run(flow).run)

    assert run.state == "running"
    assert look(run.pk)
    hands.go_on(run)
    assert look(run.pk)

    run.refresh_from_db()
    assert run.failure == {
        "step": "ship",
        "reason": "the worker died 2 times at this step",
    }


def test_starting_again_keeps_nothing(house):
    flow = factories.workflow(house, factories.command("test"))
    first = hands.go_on(spawn_run(flow, payload={"n": 1}, key="k").run)
    failed = hands.answer(first, status=2)

    fresh = hands.go_on(spawn_run(flow, payload=failed.payload).run)

    assert fresh.pk != failed.pk
    assert fresh.retry_of_id is None
    assert drive.thread_of(fresh) != drive.thread_of(failed)
    assert hands.wait_of(fresh).await_key == f"wf.step.done:{fresh.pk}:0"
    failed.refresh_from_db()
    assert failed.state == "failed"


def test_a_retry_keeps_what_was_done_and_goes_on_from_what_failed(house, alice):
    run = start(
        house,
        factories.command("build"),
        factories.command("ship", "ship {{steps.build.output}} {{tag}}"),
    )
    Run.objects.filter(pk=run.pk).update(payload={"tag": "v1"})
    hands.answer(run, output="app.whl")
    hands.answer(run, status=1)
    assert run.state == "failed"

    again = hands.go_on(retry_run(run, by=alice).run)

    assert again.retry_of_id == run.pk
    assert (again.trigger, again.position) == ("retry", 1)
    assert Turn.objects.get(state="pending").instruction == "ship app.whl v1"
    assert drive.bodies(again)[0] == (
        f"Started by alice to retry run {run.pk}. Kept from it: build."
    )
    assert hands.answer(again).state == "completed"
    assert drive.steps(again) == [("build", "completed"), ("ship", "completed")]
    assert run.state == "failed"


def test_a_retry_may_begin_at_an_earlier_step(house):
    run = start(house, factories.command("build"), factories.command("ship"))
    hands.answer(run)
    hands.answer(run, status=1)

    again = hands.go_on(retry_run(run, from_step="build").run)

    assert drive.bodies(again)[0].endswith("Kept from it: nothing.")
    assert drive.steps(again) == [("build", "waiting")]


def test_a_retry_past_a_failure_that_went_on_keeps_it(house):
    run = start(
        house,
        factories.command("check", on_error="continue"),
        factories.command("mend", when="on_failure"),
        factories.command("ship"),
    )
    hands.answer(run, status=1)
    hands.answer(run)
    hands.answer(run, status=1)
    assert run.failure == {"step": "ship", "reason": "exited with status 1"}

    again = hands.answer(hands.go_on(retry_run(run).run))

    assert again.state == "completed"
    assert drive.steps(again) == [
        ("check", "failed"), ("mend", "completed"), ("ship", "completed"),
    ]  # fmt: skip


def test_a_retry_is_refused_where_it_has_no_sense(house):
    run = start(house, factories.command("build"))
    with pytest.raises(RunActive):
        retry_run(run)
    hands.answer(run, status=1)

    with pytest.raises(NotFound, match="no step called “deploy”; there are build"):
        retry_run(run, from_step="deploy")


def test_a_retry_never_jumps_over_what_has_not_run(house):
    steps = [factories.command(name) for name in ("build", "test", "ship")]
    run = cancel_run(start(house, *steps).pk)

    with pytest.raises(NotReached):
        retry_run(run, from_step="ship")

    assert Run.objects.count() == 1
    assert retry_run(run).run.position == 0


def test_a_turn_is_tried_again_on_the_row_with_the_same_key(house):
    run = start(house, factories.command("test", retries=TWICE))
    first = Turn.objects.get()

    hands.answer(run, status=2)

    assert run.state == "sleeping"
    assert run.due_at is not None
    left = run.due_at - why.now()
    assert timedelta(seconds=50) < left <= timedelta(seconds=60)
    assert hands.wait_of(run).await_kind == "time"
    assert not Event.objects.exists()
    assert drive.bodies(run)[-1] == (
        "Trying test again in 1 min (try 2 of 3): exited with status 2"
    )
    assert "tried again" in why.in_words(run)

    hands.sql(
        "UPDATE workflows_run SET state = 'pending', due_at = NULL, ready_at = now()"
    )
    hands.go_on(run)

    second = Turn.objects.get(state="pending")
    assert second.pk != first.pk
    assert second.key == first.key == f"{run.pk}:0"
    assert second.subject == first.subject
    assert second.spec["env"]["THREADWORK_KEY"] == first.spec["env"]["THREADWORK_KEY"]


def test_the_last_try_settles_the_step_and_emits_its_event_once(house):
    run = start(house, factories.command("test", retries={"limit": 1, "delay": 5}))
    hands.answer(run, status=2)
    Run.objects.filter(pk=run.pk).update(
        state="pending", due_at=None, ready_at=why.now()
    )
    hands.go_on(run)

    hands.answer(run, status=3)

    assert run.failure == {"step": "test", "reason": "exited with status 3"}
    event = Event.objects.get()
    assert event.name == f"wf.step.done:{run.pk}:0"
    assert event.payload == {"state": "failed", "reason": "exited with status 3"}
    step = Checkpoint.objects.get()
    assert (step.tries, step.state) == (2, "failed")
    assert documents.run(run)["steps"][0]["attempts"] == 2


def test_a_call_is_tried_again_on_the_row(house, calls):
    calls.faults = 1
    step = factories.call("work", "work", args={"value": 7}, retries=TWICE)
    run = start(house, step)

    assert (run.state, run.holder) == ("sleeping", None)
    assert "RuntimeError: the line was busy" in drive.bodies(run)[-1]
    drive.wake(run)

    assert run.state == "completed"
    step_row = Checkpoint.objects.get()
    assert (step_row.tries, step_row.result) == (2, {"result": 7})
    assert step_row.error == ""


def test_a_rejection_is_not_tried_again(house, alice):
    run = start(house, factories.gate("ship", retries=TWICE))

    gates.speak(drive.thread_of(run), person=alice, text="no")

    assert hands.go_on(run).state == "failed"
    assert Gate.objects.count() == 1


def test_a_handler_runs_after_a_failure_and_the_run_still_ends_failed(house):
    run = start(
        house,
        factories.command("test"),
        factories.command("mend", when="on_failure"),
        factories.command("ship"),
        factories.command("sweep", when="always"),
    )
    hands.answer(run, status=1)
    hands.answer(run)
    hands.answer(run)

    assert drive.steps(run) == [
        ("test", "failed"), ("mend", "completed"), ("ship", "skipped"), ("sweep", "completed"),
    ]  # fmt: skip
    assert run.failure == {"step": "test", "reason": "exited with status 1"}


def test_with_continue_alone_the_run_can_still_complete(house):
    run = start(
        house,
        factories.command("test", on_error="continue"),
        factories.command("mend", when="on_failure"),
        factories.command("ship"),
    )
    hands.answer(run, status=1)
    hands.answer(run)
    hands.answer(run)

    assert run.state == "completed"
    assert run.failure is None
    assert [state for _, state in drive.steps(run)] == [
        "failed",
        "completed",
        "completed",
    ]


def test_a_handler_is_skipped_where_nothing_failed(house):
    run = start(
        house,
        factories.command("test"),
        factories.command("mend", when="on_failure"),
        factories.command("ship"),
    )
    hands.answer(run)
    hands.answer(run)

    assert drive.steps(run)[1] == ("mend", "skipped")
    assert "Skipped mend: no step failed before it." in drive.bodies(run)
    assert run.state == "completed"


def test_the_first_failure_that_stops_is_the_reason(house):
    run = start(
        house, factories.command("test"), factories.command("sweep", when="always")
    )
    hands.answer(run, status=1)
    hands.answer(run, status=9)

    assert run.failure == {"step": "test", "reason": "exited with status 1"}


def test_a_stored_step_that_cannot_be_read_fails_the_run_by_its_name(house):
    flow = factories.workflow(house, factories.gate("ship"))
    run = spawn_run(flow, start=Start()).run
    hands.sql(
        "INSERT INTO workflows_plan (hash, steps, created_at) VALUES"
        """ ('broken', '[{"name": "odd", "kind": "sleep", "seconds": [1]}]', now())"""
    )
    hands.sql(
        "UPDATE workflows_run SET plan_id = (SELECT id FROM workflows_plan"
        " WHERE hash = 'broken')"
    )

    hands.go_on(run)

    assert run.state == "failed"
    assert hands.failure(run)[0] == "odd"
