"""Runs that would wait for each other, by way of a workflow's places too."""

from __future__ import annotations

import pytest

from tests import drive, factories
from tests.hands import failure, hold, together
from workflows import authoring, plan
from workflows.engine import children, waits
from workflows.models import Run, Workflow
from workflows.services import cancel_run, spawn_run

pytestmark = pytest.mark.django_db(transaction=True)


def runs(slug: str) -> dict[str, object]:
    return {"name": "child", "kind": "run_workflow", "workflow": slug}


def starts_itself(house, *, places: int = 1) -> Workflow:
    """Save a workflow whose run starts another of the same, while there is place."""
    more = {"overlap": "wait", "limit": places}
    factories.workflow(house, factories.gate(), slug="self", **more)
    return factories.workflow(house, runs("self"), slug="self", **more)


def only_gate(house, *, places: int) -> None:
    factories.workflow(
        house, factories.gate(), slug="self", overlap="wait", limit=places
    )


def test_a_run_below_that_waits_for_its_own_starters_place_is_refused(house):
    run = drive.carry(spawn_run(starts_itself(house)).run)

    child = Run.objects.get(parent=run)
    assert run.state == "failed"
    assert failure(run) == ("child", f"run {child.pk} itself waits for this one to end")
    # What nobody waits for any more does no work on the place that came free.
    assert child.state == "cancelled"
    assert drive.bodies(child)[-1].endswith("would have waited for it for ever")


def test_the_same_by_way_of_a_run_between(house):
    more = {"overlap": "wait"}
    factories.workflow(house, factories.gate(), slug="self", **more)
    factories.workflow(house, runs("self"), slug="between")
    flow = factories.workflow(house, runs("between"), slug="self", **more)

    run = drive.carry(spawn_run(flow).run)
    for each in Run.objects.exclude(pk=run.pk):
        drive.carry(each)

    run.refresh_from_db()
    assert run.state == "failed"
    between = Run.objects.get(workflow__slug="between", parent=run)
    below = Run.objects.get(parent=between)
    assert failure(between)[1] == f"run {below.pk} itself waits for this one to end"


def test_one_that_somebody_else_will_make_room_for_is_waited_for(house):
    flow = starts_itself(house, places=2)
    only_gate(house, places=2)
    other = drive.carry(spawn_run(flow).run)
    starts_itself(house, places=2)
    run = drive.carry(spawn_run(flow).run)
    child = Run.objects.get(parent=run)
    only_gate(house, places=2)

    assert (run.state, child.state, child.deferred) == ("waiting", "pending", "seat")

    cancel_run(other.pk, who="alice")
    drive.carry(child)
    child.refresh_from_db()
    assert child.ready_at is not None or child.state != "pending"


def test_where_every_place_leads_back_somebody_is_refused_and_none_waits_for_ever(
    house,
):
    flow = starts_itself(house, places=2)
    first, second = (spawn_run(flow).run for _ in range(2))

    drive.carry(first)
    for run in Run.objects.all():
        drive.carry(run)

    second.refresh_from_db()
    assert second.state == "failed"
    assert "itself waits for this one to end" in failure(second)[1]
    assert not Run.objects.active().exists()


def test_a_pause_hides_no_circle(house):
    flow = starts_itself(house)
    run = spawn_run(flow).run
    authoring.pause_workflow(flow)

    run = drive.carry(run)

    assert run.state == "failed"
    assert "itself waits for this one to end" in failure(run)[1]


def test_two_that_begin_to_wait_at_one_moment_see_each_other(house):
    flow = starts_itself(house, places=2)
    parents = [hold(spawn_run(flow).run) for _ in range(2)]
    below = [
        children.start(held, slug="self", payload={}, key=f"{held.id}:0")
        for held in parents
    ]
    step = plan.RunWorkflow(name="child", kind="run_workflow", workflow="self")

    def park(number: int) -> bool:
        try:
            return waits.parked_on(
                parents[number], step, below[number], None, "Waiting."
            )
        except children.CannotStart:
            return False

    assert sorted(together(2, park)) == [False, True]
