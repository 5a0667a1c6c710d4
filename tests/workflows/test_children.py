from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection

from project.embedded.waiting import until
from tests import drive, factories
from tests.hands import called, failure, go_on, hold, sql, together
from threads.locking import locked
from threads.services import Ending, held_by, settle_turn
from workflows import journal, settling
from workflows.engine import children
from workflows.engine.conductor import Conductor
from workflows.models import Run
from workflows.services import cancel_run, look, retry_run, spawn_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def calls(settings):
    settings.CALLS = {"called": "tests.hands.called"}
    called.seen.clear()
    called.faults = 0


def runs(slug, name="child", **more):
    return {"name": name, "kind": "run_workflow", "workflow": slug, **more}


def parent_of(house, *steps, **more):
    flow = factories.workflow(house, *steps, slug="parent", **more)
    return go_on(spawn_run(flow).run)


def child_of(run) -> Run:
    return Run.objects.get(parent=run)


def test_a_run_starts_another_and_goes_on_when_that_has_ended(house):
    inner = factories.call("sum", "called", args={"value": "{{payload.n}}"})
    factories.workflow(house, inner, slug="inner")
    outer = factories.workflow(
        house,
        runs("inner", payload={"n": 3}),
        factories.call("tell", "called", args={"got": "{{steps.child.result.result}}"}),
        slug="outer",
    )

    run = drive.carry(spawn_run(outer).run)

    child = child_of(run)
    assert (run.state, child.state, child.trigger) == ("completed", "completed", "run")
    assert called.seen[-1] == {"got": 3}
    assert drive.bodies(run)[1:3] == [
        f"Running inner in run {child.pk}.",
        f"Run {child.pk} completed.",
    ]
    assert drive.bodies(child)[0].startswith("Started by outer, run")


def test_a_waiting_parent_holds_nothing(house):
    factories.workflow(house, factories.gate(), slug="inner")

    run = parent_of(house, runs("inner"))

    assert (run.state, run.holder, run.due_at) == ("waiting", None, None)


def test_a_run_that_fails_fails_the_step_that_started_it(house):
    called.faults = 1
    factories.workflow(house, factories.call("boom", "called"), slug="inner")
    flow = factories.workflow(house, runs("inner"), slug="outer")

    run = drive.carry(spawn_run(flow).run)

    child = child_of(run)
    assert failure(run) == (
        "child",
        f"run {child.pk} failed at boom: RuntimeError: the line was busy",
    )


def test_cancelling_a_run_cancels_the_one_it_waits_for(house, alice):
    factories.workflow(house, factories.gate(), slug="inner")
    run = parent_of(house, runs("inner"))
    child = go_on(child_of(run))
    assert child.state == "waiting"

    cancel_run(run.pk, by=alice, reason="enough")

    run.refresh_from_db()
    child.refresh_from_db()
    assert (run.state, child.state) == ("cancelled", "cancelled")
    assert drive.bodies(run)[-1].startswith("Cancelled by")


def test_a_cancel_waits_for_a_command_of_the_run_below(house, alice):
    factories.workflow(house, factories.command("work"), slug="inner")
    run = parent_of(house, runs("inner"))
    child = go_on(child_of(run))
    turn = drive.begun_turn(child)
    cancel_run(run.pk, by=alice)
    run.refresh_from_db()
    assert run.state == "waiting"
    turn.refresh_from_db()
    assert turn.cancel_asked_at is not None

    assert settle_turn(turn, Ending("cancelled", "stopped"), guard=held_by(turn))

    assert drive.carry(run).state == "cancelled"


def test_whoever_parks_on_a_run_takes_its_own_thread_before_that_runs_row(house):
    factories.workflow(house, factories.gate(), slug="inner")
    run = parent_of(house, runs("inner"))
    child = go_on(child_of(run))
    assert settling.wake(run.pk)

    def park():
        go_on(Run.objects.get(pk=run.pk))
        connection.close()

    worker = threading.Thread(target=park)
    with locked(drive.thread_of(run)):
        worker.start()
        assert until(somebody_waits_for_a_lock, seconds=20)
        # Else this raises: whoever ends the step by hand takes it in that order.
        Run.objects.select_for_update(nowait=True).get(pk=child.pk)
    worker.join(20)

    assert Run.objects.get(pk=run.pk).state == "waiting"


def somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


def test_a_cancel_that_died_before_the_run_below_is_taken_up_by_a_look(house, alice):
    factories.workflow(house, factories.gate(), slug="inner")
    run = parent_of(house, runs("inner"))
    go_on(child_of(run))
    Run.objects.filter(pk=run.pk).update(cancel_asked_at=run.created_at)

    assert look(run.pk)

    run.refresh_from_db()
    assert (run.state, child_of(run).state) == ("cancelled", "cancelled")


def test_a_start_cut_off_before_it_parked_finds_the_run_it_has_started(
    house,
):
    factories.workflow(house, factories.gate(), slug="inner")
    flow = factories.workflow(house, runs("inner"), slug="outer")
    run = spawn_run(flow).run
    held = hold(run)
    first = children.start(held, slug="inner", payload={}, key=f"{held.id}:0")
    journal.release(held)

    go_on(run)

    assert child_of(run).pk == first.pk


def test_a_run_that_ended_before_its_parent_parked_is_not_missed(house):
    factories.workflow(house, factories.call("quick", "called"), slug="inner")
    flow = factories.workflow(house, runs("inner"), slug="outer")
    parents = [spawn_run(flow).run for _ in range(8)]

    together(8, lambda n: drive.carry(parents[n]))

    for run in parents:
        assert drive.carry(run).state == "completed"


def test_runs_within_runs_end_somewhere(house):
    factories.workflow(house, factories.call("a", "called"), slug="self")
    flow = factories.workflow(house, runs("self"), slug="self")

    drive.carry(spawn_run(flow).run)
    while drive.carry(Run.objects.latest("created_at")).state == "waiting":
        pass
    for run in Run.objects.order_by("-created_at"):
        drive.carry(run)

    assert Run.objects.count() == 10
    assert set(Run.objects.values_list("state", flat=True)) == {"failed"}


def test_runs_that_would_wait_for_each_other_do_not(house):
    factories.workflow(house, factories.call("a", "called"), slug="b", overlap="join")
    factories.workflow(house, runs("b"), slug="a", overlap="join")
    flow = factories.workflow(house, runs("a"), slug="b", overlap="join")

    run = drive.carry(spawn_run(flow).run)
    for each in Run.objects.all():
        drive.carry(each)

    run.refresh_from_db()
    assert run.state == "failed"
    assert set(Run.objects.values_list("state", flat=True)) == {"failed"}


def test_a_retry_starts_a_new_run_below(house):
    called.faults = 1
    factories.workflow(house, factories.call("boom", "called"), slug="inner")
    flow = factories.workflow(house, runs("inner"), slug="outer")
    run = drive.carry(spawn_run(flow).run)

    again = drive.carry(retry_run(run).run)

    assert again.state == "completed"
    assert Run.objects.filter(workflow__slug="inner").count() == 2


def test_an_unknown_workflow_fails_the_step_with_its_name(house):
    run = drive.carry(parent_of(house, runs("nowhere")))

    assert failure(run) == ("child", "there is no workflow called “nowhere” here")


def test_a_run_below_that_takes_too_long_is_cancelled(house):
    factories.workflow(house, factories.gate(), slug="inner")
    run = parent_of(house, runs("inner", timeout="10s"))
    child = go_on(child_of(run))
    drive.late(run, by=timedelta(seconds=11))
    sql(
        "UPDATE workflows_checkpoint SET result = jsonb_build_object('until',"
        " '2020-01-01T00:00:00Z') WHERE run_id = %s",
        run.pk,
    )
    Conductor().wake_sleepers()

    run = drive.carry(run)

    child.refresh_from_db()
    assert (run.state, child.state) == ("failed", "cancelled")
    assert failure(run)[1] == f"run {child.pk} took longer than 10 s"


def test_a_step_that_is_tried_again_starts_another_run(house):
    called.faults = 1
    factories.workflow(house, factories.call("boom", "called"), slug="inner")
    step = runs("inner", retries={"limit": 2, "delay": 5})
    run = drive.carry(spawn_run(factories.workflow(house, step, slug="outer")).run)
    assert run.state == "sleeping"

    run = drive.wake(run)

    assert run.state == "completed"
    below = Run.objects.filter(parent=run).order_by("created_at")
    assert [one.state for one in below] == ["failed", "completed"]
