"""Schedules fire here and nowhere else; the ledger keeps what became of each slot."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from threads import phrases as thread_phrases
from threads import points, text
from workflows import phrases, schedules, why
from workflows.models import Run, Slot, Workflow
from workflows.services import Spawned, Start, spawn_run

ON_TIME = timedelta(seconds=60)  # later than that is late, and a missed slot
MOST_LINES = 100  # missed slots with a ledger line of their own


def fire_due(workflow_id: UUID) -> Run | None:
    """Fire a workflow's slot if it is due; return the run it started.

    Does nothing before `next_slot_at`. Any number of callers at once: the row is locked,
    the slot is unique, and the slot, the run and the next time commit together. Beat
    reads the schedules of every namespace in its database; another's does nothing here.
    """
    with transaction.atomic():
        workflow = (
            Workflow.objects.current()
            .select_for_update(skip_locked=True, no_key=True, of=("self",))
            .select_related("house", "bot")
            .filter(
                pk=workflow_id,
                next_slot_at__lte=Now(),
                house__namespace=settings.NAMESPACE,
            )
            .first()
        )
        if workflow is None or workflow.next_slot_at is None:
            return None
        now = why.now()
        schedule = schedules.parse(workflow.schedule)
        due = due_slots(schedule, first=workflow.next_slot_at, now=now)
        run = settle_slots(workflow, due, now=now)
        Workflow.objects.filter(pk=workflow.pk).update(
            next_slot_at=schedules.next_after(schedule, now)
        )
        points.written("slot")
        return run


@dataclass(frozen=True)
class Due:
    """The slots whose time has come: each, or of too many the first and the newest."""

    slots: list[datetime]
    count: int


def due_slots(schedule: schedules.Schedule, *, first: datetime, now: datetime) -> Due:
    later = schedules.missed_slots(schedule, last=first, now=now, limit=MOST_LINES + 1)
    newest = schedules.due_slot(schedule, last=first, now=now)
    if len(later) <= MOST_LINES or newest is None:
        return Due([first, *later], 1 + len(later))
    count = 1 + schedules.count_slots(schedule, last=first, now=now)
    return Due([first, newest], count)


def settle_slots(workflow: Workflow, due: Due, *, now: datetime) -> Run | None:
    *older, newest = due.slots
    if workflow.paused:
        skip(workflow, due.slots, phrases.SLOT_PAUSED, count=due.count)
        return None
    late = now - newest
    if late > ON_TIME and workflow.missed == Workflow.Missed.SKIP:
        skip(workflow, due.slots, phrases.SLOT_MISSED, count=due.count)
        return None
    skip(workflow, older, phrases.SLOT_MISSED, count=due.count - 1)
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


def skip(workflow: Workflow, slots: list[datetime], reason: str, *, count: int) -> None:
    """Write skipped slots down: a line each, or one at the first beyond a hundred."""
    if count > MOST_LINES:
        words = phrases.SLOT_MANY.format(count=count, reason=reason)
        lines = [(slots[0], words, count)]
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
