"""Runs that would wait for each other, by way of a workflow's places too."""

from __future__ import annotations

import pytest

from tests import drive, factories
from tests.hands import failure
from workflows import authoring
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
    # The place that came free is the child's own.
    assert drive.carry(child).state != "pending"


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
