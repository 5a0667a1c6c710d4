"""`overlap` and `limit`: who waits, who joins, who is replaced."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, transaction

from project.embedded.waiting import until
from tests import drive, factories
from tests.hands import sql, together, waiting_for_locks
from threads import gates, tenancy
from workflows import authoring, seats, sweep, why
from workflows.exceptions import BadWorkflow
from workflows.models import Run, Seat, Workflow
from workflows.services import cancel_run, spawn_run


def gated(house, **more) -> Workflow:
    return factories.workflow(house, factories.gate("ask"), **more)


def states(*runs: Run) -> list[str]:
    found = {run.pk: run.state for run in Run.objects.all()}
    return [found[run.pk] for run in runs]


def answer(run: Run, person) -> None:
    gates.decide(drive.open_gate(run).pk, person=person, answer="yes", door="page")
    drive.carry(run)


def test_a_start_that_waits_begins_when_the_one_before_it_has_ended(house, alice):
    flow = gated(house, overlap="wait")
    first, second, third = (spawn_run(flow).run for _ in range(3))
    drive.carry(first)
    assert states(first, second, third) == ["waiting", "pending", "pending"]
    assert str(first.pk) in why.in_words(Run.objects.get(pk=second.pk))

    answer(first, alice)

    assert states(first, second, third) == ["completed", "waiting", "pending"]


def test_a_limit_lets_so_many_be_active_and_the_rest_wait(house, alice):
    flow = gated(house, limit=2)
    runs = [spawn_run(flow).run for _ in range(4)]
    drive.carry(runs[0])
    assert states(*runs) == ["waiting", "waiting", "pending", "pending"]

    answer(runs[1], alice)

    assert states(*runs) == ["waiting", "completed", "waiting", "pending"]


def test_a_start_that_joins_is_handed_a_run_that_is_active(house):
    flow = gated(house, overlap="join", limit=2)

    spawned = [spawn_run(flow) for _ in range(3)]

    assert [each.joined for each in spawned] == [False, False, True]
    assert spawned[2].run.pk in {spawned[0].run.pk, spawned[1].run.pk}


def test_a_start_that_replaces_cancels_who_sits_and_who_waits(house):
    flow = gated(house, overlap="replace")
    first = spawn_run(flow).run
    drive.carry(first)

    second = spawn_run(flow).run
    drive.carry(second)

    assert states(first, second) == ["cancelled", "waiting"]
    assert drive.bodies(first)[-1].startswith("Cancelled by System: run ")
    third = spawn_run(flow).run
    assert states(first, second, third)[1:] == ["cancelled", "pending"]
    assert Seat.objects.get().run_id == third.pk


def test_one_who_waits_and_is_cancelled_frees_nobodys_place(house):
    flow = gated(house, overlap="wait")
    first, second, third = (spawn_run(flow).run for _ in range(3))

    cancel_run(second.pk, who="alice")
    cancel_run(first.pk, who="alice")

    assert states(first, second, third) == ["cancelled", "cancelled", "pending"]
    assert Seat.objects.get().run_id == third.pk
    assert drive.carry(third).state == "waiting"


def test_what_a_pause_held_back_takes_the_places_in_order(house):
    flow = gated(house, overlap="wait")
    authoring.pause_workflow(flow)
    first, second = (spawn_run(flow).run for _ in range(2))

    authoring.resume_workflow(flow)

    assert drive.carry(first).state == "waiting"
    assert states(first, second) == ["waiting", "pending"]


def test_the_sweep_seats_who_waits_beside_a_free_place(house):
    flow = gated(house, overlap="wait")
    first, second = (spawn_run(flow).run for _ in range(2))
    Seat.objects.all().delete()

    sweep.sweep()

    first.refresh_from_db()
    second.refresh_from_db()
    assert Seat.objects.get().run_id == second.pk
    assert second.ready_at is not None


def test_a_limit_for_starts_that_may_all_run_is_refused(house):
    with pytest.raises(BadWorkflow, match="limit: means nothing with overlap: allow"):
        gated(house, overlap="allow", limit=2)


def test_ten_starts_at_once_leave_one_seated_and_nine_waiting(transactional_db, posted):
    flow = gated(tenancy.open_house("home", name="Home"), overlap="wait")

    together(10, lambda n: spawn_run(flow))

    assert Run.objects.filter(ready_at__isnull=False).count() == 1
    assert seats.waiting_runs(flow).count() == 9


def test_a_place_is_never_lost_between_a_start_and_a_settling_run(
    transactional_db, posted
):
    flow = gated(tenancy.open_house("home", name="Home"), overlap="wait")
    for _ in range(5):
        first = spawn_run(flow).run

        def act(n: int, first: Run = first) -> None:
            if n == 0:
                cancel_run(first.pk, who="alice")
            else:
                spawn_run(flow)

        together(4, act)

        seated = Seat.objects.get().run
        assert seated.state == "pending"
        assert seated.ready_at is not None
        for run in Run.objects.active().order_by("-created_at"):
            cancel_run(run.pk, who="alice")
        assert not Seat.objects.exists()


def test_one_who_sat_down_during_a_pause_begins_after_an_edit_too(house):
    flow = factories.workflow(house, factories.sleep(), overlap="join")
    authoring.pause_workflow(flow)
    run = spawn_run(flow).run
    factories.workflow(house, factories.sleep(), overlap="replace")

    authoring.resume_workflow(flow)

    assert drive.carry(run).state == "sleeping"


def test_the_sweep_lets_one_begin_who_sits_and_is_held_back(house):
    flow = factories.workflow(house, factories.sleep(), overlap="wait")
    run = spawn_run(flow).run
    Run.objects.filter(pk=run.pk).update(ready_at=None, deferred=Run.NO_SEAT)

    sweep.sweep()

    assert drive.carry(run).state == "sleeping"


@pytest.mark.parametrize("held", [Run.NO_SEAT, Run.PAUSED])
def test_whoever_lets_many_begin_and_whoever_waits_for_them_lock_in_one_order(
    transactional_db, posted, held
):
    flow = gated(tenancy.open_house("home", name="Home"), overlap="wait", limit=2)
    first, second = sorted((spawn_run(flow).run for _ in range(2)), key=lambda r: r.pk)
    for run in (second, first):  # as they lie in the table, too
        Run.objects.filter(pk=run.pk).update(ready_at=None, deferred=held)
    faults: list[BaseException] = []

    def apart(act):
        def caller():
            try:
                act()
            except BaseException as fault:  # noqa: BLE001  told by the test's own thread
                faults.append(fault)
            finally:
                connection.close()

        thread = threading.Thread(target=caller)
        thread.start()
        return thread

    def begin():
        with transaction.atomic():
            authoring.begin_held(flow)

    with transaction.atomic():
        sql("SELECT 1 FROM workflows_run WHERE id = %s FOR UPDATE", first.pk)
        waiter = apart(lambda: spawn_run(flow))
        assert until(lambda: waiting_for_locks() == 1, seconds=20)
        beginner = apart(begin)
        assert until(lambda: waiting_for_locks() == 2, seconds=20)
    for thread in (waiter, beginner):
        thread.join(20)

    assert faults == []
    assert Run.objects.filter(ready_at__isnull=False).count() == 2
