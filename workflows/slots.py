"""Schedules fire here and nowhere else; the ledger keeps what became of each slot."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from threads import phrases as thread_phrases
from threads import text
from workflows import phrases, schedules, why
from workflows.models import Run, Slot, Workflow
from workflows.services import Spawned, Start, spawn_run

ON_TIME = timedelta(seconds=60)  # later than that is late, and a missed slot
MOST_LINES = 100  # missed slots with a ledger line of their own


def fire_due(workflow_id: UUID) -> Run | None:
    """Fire a workflow's slot if it is due; return the run it started.

    Does nothing before `next_slot_at`. Any number of callers at once: the row is locked,
    the slot is unique, and the slot, the run and the next time commit together.
    """
    with transaction.atomic():
        workflow = (
            Workflow.objects.current()
            .select_for_update(skip_locked=True, no_key=True, of=("self",))
            .select_related("house", "bot")
            .filter(pk=workflow_id, next_slot_at__lte=Now())
            .first()
        )
        if workflow is None or workflow.next_slot_at is None:
            return None
        now = why.now()
        schedule = schedules.parse(workflow.schedule)
        slots = [workflow.next_slot_at, *missed_after(schedule, workflow, now)]
        run = settle_slots(workflow, slots, now=now)
        Workflow.objects.filter(pk=workflow.pk).update(
            next_slot_at=schedules.next_after(schedule, now)
        )
        return run


def missed_after(
    schedule: schedules.Schedule, workflow: Workflow, now: datetime
) -> list[datetime]:
    """Return the slots after the next one that have passed too; the last is the newest."""
    assert workflow.next_slot_at is not None  # noqa: S101  the caller looked
    passed = schedules.missed_slots(
        schedule, last=workflow.next_slot_at, now=now, limit=MOST_LINES + 1
    )
    if len(passed) <= MOST_LINES:
        return passed
    newest = schedules.due_slot(schedule, last=workflow.next_slot_at, now=now)
    return [*passed, newest] if newest and newest > passed[-1] else passed


def settle_slots(
    workflow: Workflow, slots: list[datetime], *, now: datetime
) -> Run | None:
    *older, newest = slots
    if workflow.paused:
        skip(workflow, slots, phrases.SLOT_PAUSED)
        return None
    late = now - newest
    if late > ON_TIME and workflow.missed == Workflow.Missed.SKIP:
        skip(workflow, slots, phrases.SLOT_MISSED)
        return None
    skip(workflow, older, phrases.SLOT_MISSED)
    return fire(workflow, newest, late=late)


def fire(workflow: Workflow, slot: datetime, *, late: timedelta) -> Run | None:
    """Start the slot's run and write its line; the unique slot decides."""
    line = Slot(workflow=workflow, slot_at=slot, outcome=Slot.Outcome.FIRED)
    if Slot.objects.filter(workflow=workflow, slot_at=slot).exists():
        return None
    spawned = start_slot(workflow, slot, late=late)
    line.run = spawned.run
    if spawned.joined:
        line.outcome = Slot.Outcome.SKIPPED
        line.reason = phrases.SLOT_JOINED.format(run=spawned.run.pk)
    elif late > ON_TIME:
        line.outcome = Slot.Outcome.LATE
        seconds = float(round(late.total_seconds()))
        line.reason = phrases.SLOT_LATE.format(late=thread_phrases.seconds(seconds))
    line.save(force_insert=True)
    return spawned.run if spawned.new else None


def start_slot(workflow: Workflow, slot: datetime, *, late: timedelta) -> Spawned:
    words = phrases.BY_SCHEDULE_LATE if late > ON_TIME else phrases.BY_SCHEDULE
    return spawn_run(
        workflow,
        start=Start(
            trigger=Run.Trigger.SCHEDULE,
            who=words.format(slot=slot),
            overlap=Workflow.Overlap.JOIN,
        ),
    )


def skip(workflow: Workflow, slots: list[datetime], reason: str) -> None:
    """Write skipped slots down: a line each, or one with a count beyond a hundred."""
    if len(slots) > MOST_LINES:
        words = phrases.SLOT_MANY.format(count=f"more than {MOST_LINES}")
        lines = [(slots[-1], words, len(slots))]
    else:
        lines = [(slot, reason, 1) for slot in slots]
    Slot.objects.bulk_create(
        [
            Slot(
                workflow=workflow,
                slot_at=slot,
                outcome=Slot.Outcome.SKIPPED,
                reason=words,
                count=count,
            )
            for slot, words, count in lines
        ],
        ignore_conflicts=True,
    )


def disable(workflow_id: UUID, reason: str) -> None:
    """Take a broken schedule out of the round, visibly; the others go on."""
    Workflow.objects.filter(pk=workflow_id).update(
        next_slot_at=None,
        paused_reason=text.one_line(f"the schedule is broken: {reason}", 200),
    )
