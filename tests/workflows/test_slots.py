"""One run a slot, whoever fires it; the ledger says what became of each (A16, A57)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django_celery_beat.models import PeriodicTask

from tests import drive, factories, hands
from workflows import authoring, schedules, slots, why
from workflows.engine.conductor import Conductor
from workflows.exceptions import BadWorkflow
from workflows.models import Run, Slot, Workflow
from workflows.services import spawn_run


@pytest.fixture
def hourly(house):
    return make(house)


def make(house, schedule="@hourly", slug="hourly", **more):
    return factories.workflow(
        house, factories.gate("ship"), schedule=schedule, slug=slug, **more
    )


def due(workflow, **ago):
    """Let the next slot lie in the past, on the schedule; return it."""
    schedule = schedules.parse(workflow.schedule)
    moment = schedules.next_after(schedule, why.now() - timedelta(**ago))
    assert moment is not None
    workflow.next_slot_at = moment
    Workflow.objects.filter(pk=workflow.pk).update(next_slot_at=moment)
    return moment


def due_now(workflow):
    """Let a slot be due this very second, whatever its schedule says."""
    moment = why.now().replace(microsecond=0)
    Workflow.objects.filter(pk=workflow.pk).update(next_slot_at=moment)
    return moment


def ledger(workflow):
    rows = Slot.objects.filter(workflow=workflow).order_by("slot_at")
    return [(row.outcome, row.reason, row.count) for row in rows]


def test_nothing_fires_before_its_slot(hourly):
    assert hourly.next_slot_at > why.now()

    assert slots.fire_due(hourly.pk) is None

    assert not Run.objects.exists()
    assert not Slot.objects.exists()


def test_a_slot_fires_one_run_and_moves_on(hourly):
    slot = due_now(hourly)

    run = slots.fire_due(hourly.pk)

    assert run is not None
    assert (run.trigger, run.payload, run.state) == ("schedule", {}, "pending")
    assert drive.bodies(run) == [
        f"Started by the schedule, for the slot {slot:%Y-%m-%d %H:%M} UTC."
    ]
    line = Slot.objects.get()
    assert (line.slot_at, line.outcome, line.run) == (slot, "fired", run)
    hourly.refresh_from_db()
    assert hourly.next_slot_at > why.now()
    assert slots.fire_due(hourly.pk) is None


@pytest.mark.django_db(transaction=True)
def test_many_callers_fire_a_slot_once(hourly):
    due_now(hourly)

    runs = hands.together(12, lambda _: slots.fire_due(hourly.pk))

    assert len([run for run in runs if run]) == 1
    assert Run.objects.count() == Slot.objects.count() == 1


def test_a_slot_that_is_in_the_ledger_never_fires_again(hourly):
    slot = due_now(hourly)
    slots.fire_due(hourly.pk)
    Workflow.objects.update(next_slot_at=slot)

    assert slots.fire_due(hourly.pk) is None

    assert Run.objects.count() == 1


def missed(house, hours, **more):
    """Let the hours of an hourly workflow pass unfired; the newest was 10 minutes ago."""
    newest = this_minute() - timedelta(minutes=10)
    flow = make(house, f"{newest.minute} * * * *", **more)
    Workflow.objects.update(next_slot_at=newest - timedelta(hours=hours))
    return flow


def test_after_downtime_the_newest_slot_runs_late_and_the_others_are_told(house):
    flow = missed(house, 3)

    run = slots.fire_due(flow.pk)

    assert run is not None
    lines = ledger(flow)
    assert lines[:3] == [("skipped", "missed while nothing fired schedules", 1)] * 3
    assert lines[3][0] == "late"
    assert lines[3][1].endswith(" late")
    assert drive.bodies(run)[0].endswith("UTC, which was missed.")


def test_missed_slots_are_skipped_where_the_workflow_says_so(house):
    flow = missed(house, 3, missed="skip")

    assert slots.fire_due(flow.pk) is None

    assert ledger(flow) == [("skipped", "missed while nothing fired schedules", 1)] * 4
    assert not Run.objects.exists()
    flow.refresh_from_db()
    assert flow.next_slot_at > why.now()


@pytest.mark.parametrize(
    ("policy", "count", "late"), [("skip", 251, 0), ("run_once", 250, 1)]
)
def test_more_than_a_hundred_missed_slots_are_one_line_with_their_count(
    house, policy, count, late
):
    flow = missed(house, 250, missed=policy)

    slots.fire_due(flow.pk)

    words = f"{count} slots: missed while nothing fired schedules"
    assert ledger(flow)[0] == ("skipped", words, count)
    assert [outcome for outcome, *_ in ledger(flow)[1:]] == ["late"] * late
    assert Run.objects.count() == late


def test_a_hundred_missed_slots_have_a_line_each(house):
    flow = make(house, "* * * * *")
    Workflow.objects.update(next_slot_at=this_minute() - timedelta(minutes=100))

    slots.fire_due(flow.pk)

    assert Slot.objects.filter(outcome="skipped", count=1).count() == 100
    assert Slot.objects.count() == 101


def this_minute():
    return why.now().astimezone(UTC).replace(second=0, microsecond=0)


def test_years_of_downtime_cost_one_line(house):
    flow = make(house, "* * * * *")
    began = datetime(2020, 1, 1, tzinfo=UTC)
    Workflow.objects.update(next_slot_at=began)

    slots.fire_due(flow.pk)

    line = Slot.objects.get(outcome="skipped")
    assert line.count == (Slot.objects.exclude(pk=line.pk).get().slot_at - began) // (
        timedelta(minutes=1)
    )


def test_a_paused_workflow_skips_its_slots_and_says_why(hourly):
    authoring.pause_workflow(hourly, reason="away")
    due_now(hourly)

    assert slots.fire_due(hourly.pk) is None

    assert ledger(hourly) == [("skipped", "the workflow was paused", 1)]
    hourly.refresh_from_db()
    assert hourly.next_slot_at > why.now()


def test_a_long_pause_is_one_line_that_says_so(house):
    flow = make(house, "* * * * *")
    authoring.pause_workflow(flow)
    Workflow.objects.update(next_slot_at=this_minute() - timedelta(minutes=200))

    slots.fire_due(flow.pk)

    ((outcome, words, count),) = ledger(flow)
    assert (outcome, words) == ("skipped", f"{count} slots: the workflow was paused")
    assert count in {201, 202}


def test_runs_of_a_paused_workflow_begin_when_it_goes_on(hourly):
    authoring.pause_workflow(hourly)
    run = spawn_run(hourly).run
    assert hands.go_on(run).state == "pending"
    assert why.in_words(run) == "Not started: the workflow is paused."

    authoring.resume_workflow(hourly)

    assert hands.go_on(run).state == "waiting"


def test_a_slot_joins_the_run_that_is_still_active(hourly):
    due_now(hourly)
    run = slots.fire_due(hourly.pk)
    assert run is not None
    hands.sql("UPDATE workflows_slot SET slot_at = slot_at - interval '1 hour'")
    due_now(hourly)

    assert slots.fire_due(hourly.pk) is None

    assert ledger(hourly)[1] == ("skipped", f"run {run.pk} was still active", 1)
    assert Run.objects.count() == 1


def test_other_starts_do_not_hold_a_schedule_up(hourly):
    spawn_run(hourly)
    due_now(hourly)

    assert slots.fire_due(hourly.pk) is not None


def test_a_deleted_workflow_never_fires(hourly):
    due_now(hourly)
    authoring.delete_workflow(hourly)

    assert slots.fire_due(hourly.pk) is None
    assert not PeriodicTask.objects.filter(name=f"wf:{hourly.pk}").exists()


def test_an_edited_schedule_computes_its_next_slot_again(house, hourly):
    before = due(hourly, hours=5)

    make(house, "30 12 1 1 *")

    hourly.refresh_from_db()
    assert hourly.next_slot_at != before
    assert hourly.next_slot_at.strftime("%d.%m. %H:%M") == "01.01. 12:30"
    assert hourly.next_slot_at > why.now()


def test_an_edit_of_something_else_leaves_the_next_slot(house, hourly):
    before = due(hourly, hours=5)

    make(house, name="Another name")

    hourly.refresh_from_db()
    assert (hourly.name, hourly.next_slot_at) == ("Another name", before)


def test_a_workflow_without_a_schedule_has_no_next_slot(house, hourly):
    factories.workflow(house, factories.gate("ship"), slug="hourly")

    hourly.refresh_from_db()
    assert (hourly.schedule, hourly.next_slot_at) == ("", None)
    assert not PeriodicTask.objects.filter(name__startswith="wf:").exists()


def test_a_schedule_has_exactly_one_row_for_beat(house, hourly):
    make(house, "0 6 * * 1-5")
    make(house, "0 7 13 * 5")

    row = PeriodicTask.objects.get(name__startswith="wf:")
    assert row.name == f"wf:{hourly.pk}"
    assert (row.task, row.args) == ("workflows.fire", f'["{hourly.pk}"]')
    assert (row.crontab.minute, row.crontab.hour) == ("0", "7")
    # Celery would want both day fields to match; the schedule itself decides.
    assert (row.crontab.day_of_month, row.crontab.day_of_week) == ("*", "*")
    authoring.pause_workflow(hourly)
    assert not PeriodicTask.objects.get(name=row.name).enabled


def test_a_tick_of_beat_on_another_day_fires_nothing(house):
    flow = make(house, "0 7 13 * 5")

    for _ in range(3):
        assert slots.fire_due(flow.pk) is None

    assert not Slot.objects.exists()


def test_a_broken_stored_schedule_disables_only_itself(house):
    broken = make(house, slug="broken")
    sound = make(house, slug="sound")
    due_now(broken)
    due_now(sound)
    Workflow.objects.filter(pk=broken.pk).update(schedule="99 * * * *")

    Conductor().fire_schedules()

    broken.refresh_from_db()
    assert broken.next_slot_at is None
    assert broken.paused_reason.startswith("the schedule is broken: minute:")
    assert Run.objects.get().workflow == sound


def test_a_broken_schedule_is_refused_until_it_is_mended(house):
    flow = make(house)
    Workflow.objects.update(schedule="99 * * * *")
    flow.refresh_from_db()
    slots.disable(flow.pk, "minute: 99 is too large")

    with pytest.raises(BadWorkflow, match="schedule: minute: "):
        authoring.resume_workflow(flow)
    make(house)

    flow.refresh_from_db()
    assert flow.paused_reason == ""
    assert flow.next_slot_at is not None


def test_a_schedule_that_cannot_be_read_is_refused(house):
    with pytest.raises(BadWorkflow, match="schedule: "):
        make(house, "0 25 * * *")

    assert not Workflow.objects.exists()
