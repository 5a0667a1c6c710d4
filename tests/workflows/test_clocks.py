"""The clock of a worker's or the conductor's machine decides nothing (C8)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from tests import drive, factories, hands
from threads.hands import hold
from threads.liveness import Holder
from threads.models import Gate, Job, Pulse, Turn
from threads.runtime import jobs
from workflows import slots, why
from workflows.engine.conductor import Conductor
from workflows.models import Attempt, Run, Slot, Workflow
from workflows.services import spawn_run
from workflows.sweep import sweep

NEAR = timedelta(minutes=2)


@pytest.fixture(params=[1990, 2090])
def elsewhen(request, house) -> Iterator[None]:
    """A machine whose clock is decades off."""
    with time_machine.travel(datetime(request.param, 6, 1, tzinfo=UTC), tick=True):
        yield


def near(moment, *, after=0.0):
    """Whether a moment is so many seconds after the database's own."""
    return abs(moment - why.now() - timedelta(seconds=after)) < NEAR


def test_a_claim_its_lease_and_its_record(elsewhen, house, settings):
    run = spawn_run(factories.workflow(house, factories.command("build"))).run
    held = hands.hold(run)
    run.refresh_from_db()
    assert near(run.held_until, after=settings.LEASE_SECONDS)
    assert near(held.started_at)
    assert near(Attempt.objects.get().began_at)
    assert not Conductor().orphans("workflows_run")

    hands.sql("UPDATE workflows_run SET held_until = now() - interval '1 s'")
    Conductor().bury_the_dead()
    hands.go_on(run)
    assert (run.state, run.crashes) == ("waiting", 1)

    turn = hands.take(run)
    assert near(turn.held_until, after=settings.LEASE_SECONDS)
    assert near(turn.due_at, after=settings.TURN_SECONDS + 30)
    Conductor().end_turns()
    assert hands.end(turn)
    assert hands.go_on(run).state == "completed"
    assert near(run.finished_at)


def test_a_sleep_wakes_when_the_database_says_so(elsewhen, house):
    flow = factories.workflow(house, factories.sleep("rest", 1800))
    run = hands.go_on(spawn_run(flow).run)
    assert near(run.due_at, after=1800)

    Conductor().turn_round()
    sweep()
    run.refresh_from_db()
    assert run.state == "sleeping"

    drive.late(run, by=timedelta(seconds=1801))
    Conductor().turn_round()
    assert hands.go_on(run).state == "completed"


def test_a_sleep_until_a_moment_is_measured_from_the_database(elsewhen, house):
    until = (why.now() + timedelta(hours=1)).isoformat()
    step = {"name": "rest", "kind": "sleep", "until": until}
    run = hands.go_on(spawn_run(factories.workflow(house, step)).run)

    assert run.state == "sleeping"
    assert near(run.due_at, after=3600)


def test_a_question_expires_when_the_database_says_so(elsewhen, house):
    flow = factories.workflow(house, factories.gate(deadline="30m"))
    run = hands.go_on(spawn_run(flow).run)
    assert near(Gate.objects.get().due_at, after=1800)

    Conductor().turn_round()
    assert Gate.objects.get().state == "open"

    drive.late(run, by=timedelta(seconds=1801))
    Conductor().turn_round()
    assert Gate.objects.get().state == "closed"


def test_the_next_try_of_a_call_a_turn_and_a_job(elsewhen, house, calls):
    retries = {"limit": 2, "delay": "30m"}
    calls.faults = 1
    called = factories.workflow(house, factories.call("c", "work", retries=retries))
    run = hands.go_on(spawn_run(called).run)
    assert (run.state, near(run.due_at, after=1800)) == ("sleeping", True)

    asked = factories.workflow(
        house, factories.command("b", retries=retries), slug="asked"
    )
    run = hands.go_on(spawn_run(asked).run)
    assert hands.end(hands.take(run), status=1)
    run.refresh_from_db()
    assert (run.state, near(run.due_at, after=1800)) == ("sleeping", True)

    job = Job.objects.create(
        house=house,
        namespace="default",
        type="mail.v1",
        payload={},
        state="running",
        holder=drive.holder(),
        attempts=1,
    )
    jobs.retry(job, "busy")
    job.refresh_from_db()
    assert near(job.ready_at, after=30)
    assert jobs.claim(drive.holder()) is None


def test_a_slot_fires_when_the_database_says_so(elsewhen, house):
    flow = factories.workflow(house, factories.gate(), schedule="@hourly")
    flow.refresh_from_db()
    assert timedelta(0) <= flow.next_slot_at - why.now() <= timedelta(hours=1)
    assert slots.fire_due(flow.pk) is None

    due = "UPDATE workflows_workflow SET next_slot_at = date_trunc('minute', now())"
    hands.sql(due)
    Conductor().fire_schedules()

    assert Run.objects.count() == 1
    line = Slot.objects.get()
    assert (line.outcome, line.count) == ("fired", 1)
    flow = Workflow.objects.get()
    assert flow.next_slot_at is not None
    assert timedelta(0) <= flow.next_slot_at - why.now() <= timedelta(hours=1)


@pytest.mark.django_db(transaction=True)
def test_a_beat_and_what_it_extends(elsewhen, house, settings):
    holder = Holder("worker-turns")
    holder.start()
    try:
        run = hands.go_on(
            spawn_run(factories.workflow(house, factories.command("build"))).run
        )
        turn = hands.take(run)
        hands.sql("UPDATE threads_turn SET holder = %s", holder.id)
        hands.sql("UPDATE threads_turn SET held_until = now()")
        with hold(turn.pk):
            holder.beat()
        assert near(Turn.objects.get().held_until, after=settings.LEASE_SECONDS)
        assert near(Pulse.objects.get(pk=holder.id).seen_at)
    finally:
        holder.stop()
