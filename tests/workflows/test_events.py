from __future__ import annotations

from datetime import timedelta

import pytest

from tests import drive, factories
from tests.hands import failure, go_on, sql, together
from threads import tenancy
from workflows import events
from workflows.engine.conductor import Conductor
from workflows.exceptions import BadEvent
from workflows.models import Event, Run
from workflows.services import cancel_run, look, spawn_run

pytestmark = pytest.mark.django_db(transaction=True)


def waits(name="wait", event="deploy.finished", **more):
    return {"name": name, "kind": "wait_for_event", "event": event, **more}


def begin(house, *steps, payload=None, slug="waits"):
    flow = factories.workflow(house, *steps, slug=slug)
    return go_on(spawn_run(flow, payload=payload).run)


def result(run):
    return run.steps.get(position=0).result


def test_a_run_waits_for_an_event_and_takes_its_payload(house):
    run = begin(house, waits())
    assert (run.state, run.holder) == ("waiting", None)

    emitted = events.emit_event(house, "deploy.finished", payload={"build": 7})

    assert emitted.woken == (run.pk,)
    assert drive.carry(run).state == "completed"
    assert result(run)["payload"] == {"build": 7}
    assert drive.bodies(run)[1:] == [
        "Waiting for the event deploy.finished.",
        'The event deploy.finished came with {"build": 7}',
        "Completed.",
    ]
    assert Event.objects.filter(name=f"wf.step.done:{run.pk}:0").count() == 1


def test_an_event_before_its_waiter_is_not_lost(house):
    flow = factories.workflow(house, waits(), slug="late")
    run = spawn_run(flow).run
    events.emit_event(house, "deploy.finished", payload={"n": 1})

    assert drive.carry(run).state == "completed"
    assert result(run)["payload"] == {"n": 1}


def test_an_event_of_before_the_run_began_is_not_for_it_unless_it_has_the_key(house):
    events.emit_event(house, "deploy.finished", payload={"n": 1}, key="b7")

    without = begin(house, waits())
    keyed = drive.carry(begin(house, waits(key="{{build}}"), payload={"build": "b7"}))

    assert without.state == "waiting"
    assert keyed.state == "completed"


def test_a_key_counts_once_and_wakes_only_who_names_it(house):
    mine = begin(house, waits(key="b1"))
    other = begin(house, waits(key="b2"))
    first = events.emit_event(house, "deploy.finished", payload={"n": 1}, key="b1")
    again = events.emit_event(house, "deploy.finished", payload={"n": 2}, key="b1")

    assert (first.new, again.new, again.event.pk) == (True, False, first.event.pk)
    assert first.woken == (mine.pk,)
    assert drive.carry(mine).state == "completed"
    other.refresh_from_db()
    assert other.state == "waiting"


def test_two_waits_for_one_name_take_two_events(house):
    run = begin(house, waits("a"), waits("b"))
    events.emit_event(house, "deploy.finished", payload={"n": 1})
    assert drive.carry(run).state == "waiting"

    events.emit_event(house, "deploy.finished", payload={"n": 2})

    assert drive.carry(run).state == "completed"
    assert [step.result["payload"]["n"] for step in run.steps.all()] == [1, 2]


def test_another_houses_event_wakes_nobody_here(house):
    other_house = tenancy.open_house("other", name="Other")
    run = begin(house, waits())

    assert events.emit_event(other_house, "deploy.finished").woken == ()
    assert go_on(run).state == "waiting"


def test_a_wait_ends_at_its_limit(house):
    run = begin(house, waits(timeout="10s"))
    drive.late(run, by=timedelta(seconds=11))
    sql(
        "UPDATE workflows_checkpoint SET result = jsonb_build_object('until',"
        " '2020-01-01T00:00:00Z') WHERE run_id = %s",
        run.pk,
    )

    Conductor().wake_sleepers()

    assert drive.carry(run).state == "failed"
    assert failure(run) == (
        "wait",
        "the event deploy.finished did not come within 10 s",
    )


def test_a_wait_may_go_on_without_its_event(house):
    run = begin(
        house, waits(timeout="10s", on_timeout="continue"), factories.sleep("b", 0)
    )
    drive.late(run, by=timedelta(seconds=11))
    sql(
        "UPDATE workflows_checkpoint SET result = jsonb_build_object('until',"
        " '2020-01-01T00:00:00Z') WHERE run_id = %s",
        run.pk,
    )

    assert look(run.pk)

    assert drive.carry(run).state == "completed"
    assert result(run) == {"event": "deploy.finished", "payload": None}


def test_a_wait_that_is_tried_again_has_all_its_time_again(house):
    run = begin(house, waits(timeout="1h", retries={"limit": 1}))
    sql(
        "UPDATE workflows_checkpoint SET result = jsonb_build_object('until',"
        " '2020-01-01T00:00:00Z') WHERE run_id = %s",
        run.pk,
    )
    drive.late(run, by=timedelta(hours=2))
    look(run.pk)
    run = drive.wake(go_on(run))
    assert run.state == "waiting"
    assert run.due_at is not None
    assert run.due_at > run.created_at + timedelta(minutes=50)

    events.emit_event(house, "deploy.finished")

    assert drive.carry(run).state == "completed"


def test_a_run_woken_for_nothing_waits_again_without_a_word(house):
    run = begin(house, waits(timeout="1h"))
    before = drive.bodies(run)
    sql(
        "UPDATE workflows_run SET state = 'pending', due_at = NULL,"
        " ready_at = statement_timestamp() WHERE id = %s",
        run.pk,
    )

    run = go_on(run)

    assert run.state == "waiting"
    assert run.due_at is not None
    assert drive.bodies(run) == before


def test_a_run_that_waits_for_an_event_is_cancelled_at_once(house, alice):
    run = begin(house, waits())

    assert cancel_run(run.pk, by=alice).state == "cancelled"
    assert events.emit_event(house, "deploy.finished").woken == ()


def test_an_event_whose_waking_was_lost_is_found_by_the_sweep(house):
    run = begin(house, waits())
    sql(
        "INSERT INTO workflows_event (house_id, name, payload)"
        " VALUES (%s, 'deploy.finished', '{}')",
        house.pk,
    )

    assert look(run.pk)

    assert drive.carry(run).state == "completed"


def test_emitting_and_parking_at_one_moment_lose_nothing(house):
    flow = factories.workflow(house, waits(key="k"), slug="race")
    runs = [spawn_run(flow).run for _ in range(12)]

    def act(number: int) -> None:
        if number == 0:
            events.emit_event(house, "deploy.finished", key="k")
        else:
            go_on(runs[number])

    together(12, act)

    for run in Run.objects.all():
        assert drive.carry(run).state == "completed"


@pytest.mark.parametrize("name", ["", " a", "wf.step.done:x", "a\0b", "x" * 201])
def test_a_name_that_cannot_be_kept_is_refused(house, name):
    with pytest.raises(BadEvent):
        events.emit_event(house, name)
    assert not Event.objects.exists()
