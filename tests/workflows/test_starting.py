"""Starting a run: one write, one run a key, one active run a seat (A9, A10, A56, B1)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from tests import drive, factories, hands
from threads import gates
from threads.models import Entry, Thread, Turn
from workflows import authoring, slots
from workflows.exceptions import BadPayload, NotFound
from workflows.models import Plan, Run, RunKey, Seat
from workflows.services import Start, cancel_run, retry_run, spawn_run


@pytest.fixture
def flow(house):
    return factories.workflow(house, factories.gate("ship", "Ship it?"))


@pytest.fixture
def joining(house):
    return factories.workflow(house, factories.gate("ship"), overlap="join")


def test_a_repeated_key_gets_the_run_it_already_has(flow, alice):
    first = spawn_run(flow, payload={"n": 1}, key="delivery-7", start=Start(by=alice))

    again = spawn_run(flow, payload={"n": 2}, key="delivery-7", start=Start(by=alice))

    assert (again.run, again.new, again.joined) == (first.run, False, False)
    assert again.run.payload == {"n": 1}
    assert Run.objects.count() == 1


def test_a_key_is_remembered_after_its_run_has_settled(flow):
    first = spawn_run(flow, key="k").run
    cancel_run(first.pk)

    assert spawn_run(flow, key="k").run == first


def test_a_key_belongs_to_its_workflow(house, flow):
    other = factories.workflow(house, factories.gate("ship"), slug="other")

    assert spawn_run(flow, key="k").run != spawn_run(other, key="k").run


def test_starts_without_a_key_are_runs_of_their_own(flow):
    assert spawn_run(flow).run != spawn_run(flow).run


@pytest.mark.django_db(transaction=True)
def test_thirty_callers_with_one_key_share_one_run(flow):
    spawned = hands.together(30, lambda _: spawn_run(flow, key="once"))

    assert len({each.run.pk for each in spawned}) == 1
    assert sum(each.new for each in spawned) == 1
    assert Run.objects.count() == Thread.objects.count() == RunKey.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_thirty_starts_that_join_share_the_one_active_run(joining):
    spawned = hands.together(30, lambda n: spawn_run(joining, key=f"k{n}"))

    assert len({each.run.pk for each in spawned}) == 1
    assert sum(each.new for each in spawned) == 1
    assert sum(each.joined for each in spawned) == 29
    assert Run.objects.active().count() == Seat.objects.count() == 1
    assert RunKey.objects.filter(run=spawned[0].run.pk).count() == 30


@pytest.mark.django_db(transaction=True)
def test_starts_that_join_while_runs_settle_never_meet_an_error(joining):
    def start_and_cancel(number):
        spawned = spawn_run(joining)
        if spawned.new:
            cancel_run(spawned.run.pk)
        return spawned.run.pk

    hands.together(12, start_and_cancel)

    assert Run.objects.active().count() == Seat.objects.count() == 0


@pytest.mark.parametrize("ending", ["completed", "failed", "cancelled"])
def test_a_seat_is_free_again_once_its_run_has_settled(joining, alice, ending):
    first = spawn_run(joining).run
    hands.go_on(first)
    assert spawn_run(joining).joined

    if ending == "cancelled":
        cancel_run(first.pk)
    else:
        words = "yes" if ending == "completed" else "no"
        gates.speak(drive.thread_of(first), person=alice, text=words)
        hands.go_on(first)
    second = spawn_run(joining)

    first.refresh_from_db()
    assert first.state == ending
    assert second.new


def test_nothing_is_left_of_a_start_whose_caller_rolled_back(flow):
    def start_and_fail():
        spawn_run(flow, payload={"a": 1}, key="k")
        raise LookupError

    with pytest.raises(LookupError), transaction.atomic():
        start_and_fail()

    assert Run.objects.count() == RunKey.objects.count() == 0
    assert Thread.objects.count() == Entry.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_a_ticket_goes_out_only_when_the_caller_has_committed(flow, posted):
    with transaction.atomic():
        run = spawn_run(flow, key="k").run
        assert posted == []

    assert posted == [("workflows.advance", "steps", "steps", str(run.pk))]
    assert Run.objects.get().state == "pending"


def test_a_start_that_joins_leaves_nothing_of_its_own(
    joining, django_capture_on_commit_callbacks
):
    spawn_run(joining)

    with django_capture_on_commit_callbacks() as tickets:
        spawn_run(joining, key="second")

    assert Run.objects.count() == Thread.objects.count() == 1
    assert tickets == []


def test_a_start_writes_rows_and_executes_nothing(flow):
    run = spawn_run(flow).run

    assert (run.state, run.attempts, run.holder) == ("pending", 0, None)
    assert drive.bodies(run) == ["Started by System."]
    assert not Turn.objects.exists()


def test_an_edit_never_changes_a_run_in_flight(house, flow, alice):
    run = spawn_run(flow).run
    factories.workflow(house, factories.gate("other", "Something else?"))

    hands.go_on(run)

    assert drive.bodies(run)[1] == "Ship it?"
    assert spawn_run(flow).run.plan_id != run.plan_id


def test_a_deleted_workflow_starts_nothing_and_its_runs_go_on(flow, alice):
    run = hands.go_on(spawn_run(flow).run)
    authoring.delete_workflow(flow)

    with pytest.raises(NotFound, match="has been deleted"):
        spawn_run(flow)
    gates.speak(drive.thread_of(run), person=alice, text="yes")

    assert hands.go_on(run).state == "completed"


def test_equal_steps_share_one_plan(house, flow):
    twin = factories.workflow(house, factories.gate("ship", "Ship it?"), slug="twin")

    assert twin.plan_id == flow.plan_id
    assert Plan.objects.count() == 1


def test_a_retry_runs_the_plan_its_run_was_born_with(house, flow, alice):
    run = hands.go_on(spawn_run(flow).run)
    gates.speak(drive.thread_of(run), person=alice, text="no")
    hands.go_on(run)
    factories.workflow(house, factories.gate("other"))

    assert retry_run(run).run.plan_id == run.plan_id


@pytest.mark.parametrize("payload", [[1], "text", 3, {"a": "\0"}, {"a": float("nan")}])
def test_a_payload_that_cannot_be_kept_leaves_nothing(flow, payload):
    with pytest.raises(BadPayload):
        spawn_run(flow, payload=payload)

    assert not Run.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_an_edit_under_way_does_not_hold_up_a_schedule_or_a_start(house):
    flow = factories.workflow(house, factories.gate("ship"), schedule="@hourly")
    hands.sql(
        "UPDATE workflows_workflow SET next_slot_at = now() - interval '1 minute'"
    )

    def elsewhere():
        try:
            hands.sql("SET lock_timeout = '2s'")
            return slots.fire_due(flow.pk), spawn_run(flow).new
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        # The same file again: it takes its locks and changes nothing.
        factories.workflow(house, factories.gate("ship"), schedule="@hourly")
        fired, started = pool.submit(elsewhere).result()

    assert fired is not None
    assert started


@pytest.mark.django_db(transaction=True)
def test_a_slot_being_fired_does_not_hold_up_a_start(house):
    flow = factories.workflow(house, factories.gate("ship"), schedule="@hourly")
    hands.sql(
        "UPDATE workflows_workflow SET next_slot_at = now() - interval '1 minute'"
    )

    def elsewhere():
        try:
            hands.sql("SET lock_timeout = '2s'")
            return spawn_run(flow).new, slots.fire_due(flow.pk)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        assert slots.fire_due(flow.pk) is not None
        started, fired_again = pool.submit(elsewhere).result()

    assert started
    assert fired_again is None
