"""The loop that wakes what is due: any number of them, each part on its own (A4, A26)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from tests import drive, factories, hands
from threads import gates
from threads.models import Gate, Pulse, Turn
from workflows import tasks
from workflows.engine import advance
from workflows.engine.conductor import Conductor
from workflows.models import Run
from workflows.plan import KINDS
from workflows.services import spawn_run


def start(house, *steps, slug="nightly"):
    run = hands.go_on(spawn_run(factories.workflow(house, *steps, slug=slug)).run)
    drive.late(run, by=timedelta(days=1))
    return run


def test_a_round_wakes_closes_and_ends_what_is_due(house):
    asleep = start(house, factories.sleep("rest"), slug="asleep")
    asking = start(house, factories.gate("ask", deadline="1h"), slug="asking")
    slow = start(house, factories.command("build"), slug="slow")
    hands.take(slow)
    drive.late(slow, by=timedelta(days=1))

    Conductor().turn_round()

    for run, position in ((asleep, 0), (asking, 1), (slow, 1)):
        run.refresh_from_db()
        assert (run.state, run.position) == ("pending", position)
    assert Turn.objects.get().reason == "it took longer than 10 min"


def test_what_is_not_due_is_left_alone(house):
    flow = factories.workflow(house, factories.sleep("rest"))
    run = hands.go_on(spawn_run(flow).run)

    Conductor().turn_round()

    run.refresh_from_db()
    assert run.state == "sleeping"


def test_one_gate_that_cannot_be_closed_holds_up_no_other(house, monkeypatch):
    first = start(house, factories.gate("ask", deadline="1h"), slug="one")
    second = start(house, factories.gate("ask", deadline="2h"), slug="two")
    poison = drive.open_gate(first).pk
    expire = gates.expire

    def broken(gate):
        if gate == poison:
            raise KeyError("odd")
        return expire(gate)

    monkeypatch.setattr(gates, "expire", broken)
    Conductor().close_gates()

    assert Gate.objects.get(pk=poison).state == "open"
    second.refresh_from_db()
    assert second.state == "pending"


def test_dead_workers_hand_over_within_a_round(house):
    run = spawn_run(factories.workflow(house, factories.gate("ask"))).run
    hands.hold(run)
    hands.die()

    Conductor().bury_the_dead()

    run.refresh_from_db()
    assert (run.state, run.crashes) == ("pending", 1)


def test_the_sweep_of_beat_does_what_a_conductor_does(
    house, posted, monkeypatch, django_capture_on_commit_callbacks
):
    monkeypatch.setattr("threads.post.waiting_tickets", lambda queue: 0)
    asleep = start(house, factories.sleep("rest"), slug="asleep")
    lost = spawn_run(factories.workflow(house, factories.gate("ask"))).run
    hands.sql(
        "UPDATE workflows_run SET ready_at = now() - interval '1 minute' WHERE id = %s",
        lost.pk,
    )
    flow = factories.workflow(
        house, factories.gate("ask"), slug="hourly", schedule="@hourly"
    )
    hands.sql(
        "UPDATE workflows_workflow SET next_slot_at = date_trunc('second', now())"
        " WHERE id = %s",
        flow.pk,
    )

    with django_capture_on_commit_callbacks(execute=True):
        tasks.sweep_all()

    asleep.refresh_from_db()
    assert asleep.state == "pending"
    assert Run.objects.filter(workflow=flow, trigger="schedule").exists()
    assert ("workflows.advance", "steps", "steps", "") in posted


def test_an_outage_never_multiplies_tickets(
    house, posted, monkeypatch, django_capture_on_commit_callbacks
):
    standing = 0
    monkeypatch.setattr("threads.post.waiting_tickets", lambda queue: standing)
    drive.holder()
    Pulse.objects.update(kinds=sorted(KINDS), runtimes=["command", "scripted"])
    flow = factories.workflow(house, factories.gate("ask"))
    for _ in range(20):
        spawn_run(flow)
    hands.sql("UPDATE workflows_run SET ready_at = now() - interval '1 minute'")

    with django_capture_on_commit_callbacks(execute=True):
        Conductor().top_up()
    assert posted == [("workflows.advance", "steps", "steps", "")] * 2

    standing = 2
    with django_capture_on_commit_callbacks(execute=True):
        Conductor().top_up()
    assert len(posted) == 2


def test_a_machine_with_a_wrong_clock_wakes_nobody_early(house):
    flow = factories.workflow(house, factories.sleep("rest"), schedule="@yearly")
    run = hands.go_on(spawn_run(flow).run)
    asked = factories.workflow(house, factories.gate("ask", deadline="1h"), slug="ask")
    asking = hands.go_on(spawn_run(asked).run)

    with time_machine.travel(datetime(2090, 1, 1, tzinfo=UTC), tick=True):
        Conductor().turn_round()

    for each, state in ((run, "sleeping"), (asking, "waiting")):
        each.refresh_from_db()
        assert each.state == state
    assert Run.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_two_conductors_wake_a_sleeper_once(house, posted):
    runs = [start(house, factories.sleep("rest"), slug=f"flow-{n}") for n in range(5)]
    posted.clear()

    hands.together(4, lambda _: Conductor().wake_sleepers())

    assert sorted(ticket[-1] for ticket in posted) == sorted(
        str(run.pk) for run in runs
    )
    assert Run.objects.filter(state="pending").count() == 5


@pytest.mark.django_db(transaction=True)
def test_many_workers_run_each_step_once(house, calls):
    steps = [
        factories.call(f"s{n}", "work", args={"value": f"{{{{run.id}}}}:{n}"})
        for n in range(4)
    ]
    flow = factories.workflow(house, *steps)
    runs = [spawn_run(flow).run for _ in range(8)]
    holders = [drive.holder(f"w{number}") for number in range(4)]

    def work(number):
        return advance.advance(pool="steps", holder=holders[number])

    hands.together(4, work)
    while work(0):
        pass

    ran = sorted(args["value"] for args in calls.seen)
    assert ran == sorted(f"{run.pk}:{n}" for run in runs for n in range(4))
    assert Run.objects.filter(state="completed").count() == 8
