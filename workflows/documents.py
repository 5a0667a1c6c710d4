"""What may be read of workflows and runs, one API for every surface (A58).

Nothing is written here: whoever shows one run calls `services.look` first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Subquery
from django.urls import reverse

from threads import access as thread_access
from threads import artifacts
from threads.models import Artifact, Entry, House
from workflows import access, pulses, records, schedules, selectors, why
from workflows.lines import Around, head, look_around, run_line, short
from workflows.models import Attempt, Event, Run, RunThread, Slot, Workflow
from workflows.moments import stamp, stamp_or_none

KIN = 1000  # runs that a run has started, the first ones

__all__ = ["run", "run_line", "runs", "short", "slots", "thread_lines", "workflows"]


def run(run: Run, *, entries: int | None = 500) -> dict[str, Any]:
    """Return everything of one run: its steps, attempts, events and thread.

    The thread holds the last `entries` lines, or all of them for None.
    """
    # Read before the thread, so that what ended the run is always in it.
    thread = RunThread.objects.values_list("thread", flat=True).get(run=run)
    attempts = list(Attempt.objects.filter(run=run).order_by("number"))
    events = Event.objects.filter(house=run.house_id, key=str(run.pk))
    return {
        **head(run),
        "payload": run.payload,
        "retries": retries(run),
        **around(run),
        "attempts": sum(a.ended != Attempt.Ended.RELEASED for a in attempts),
        "waiting_for": why.waiting_for(run),
        "usage": selectors.usage(thread),
        "steps": records.steps(run, thread),
        "attempt_log": [attempt_line(attempt) for attempt in attempts],
        "events": [event_line(event) for event in events.order_by("emitted_at", "pk")],
        "artifacts": [artifact_line(file) for file in artifacts.of(run.pk)],
        "thread": thread_lines(thread, entries=entries),
    }


def artifact_line(file: Artifact) -> dict[str, Any]:
    """Return a file that a step left, and where its bytes are to be had."""
    again = file.subject.split(":")[2:]
    return {
        "id": str(file.pk),
        "step": file.step,
        "iteration": int(again[0]) if again else 1,
        "name": file.name,
        "size": file.size,
        "sha256": file.digest,
        "url": reverse("threads:artifact", args=[file.pk]),
    }


def around(run: Run) -> dict[str, Any]:
    """Return what stands around a run: its limit, who has paused it, its kin."""
    children = Run.objects.filter(parent=run).order_by("created_at", "pk")
    return {
        "deadline_at": stamp_or_none(run.deadline_at),
        "paused": paused(run),
        "parent": str(run.parent_id) if run.parent_id else None,
        "children": [str(pk) for pk in children.values_list("pk", flat=True)[:KIN]],
    }


def paused(run: Run) -> dict[str, Any] | None:
    if run.paused_at is None or run.state in Run.SETTLED:
        return None
    by, _, reason = run.paused_words.partition("\n")
    return {"by": by, "reason": reason, "since": stamp(run.paused_at)}


def retries(run: Run) -> list[str]:
    """Return the runs that retry this one; while it is active there are none."""
    if run.state in Run.ACTIVE:
        return []
    return [str(pk) for pk, _ in selectors.retries(run.pk)]


def attempt_line(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "began_at": stamp(attempt.began_at),
        "ended_at": stamp_or_none(attempt.ended_at),
        "ended": attempt.ended or None,
    }


def event_line(event: Event) -> dict[str, Any]:
    return {
        "name": event.name,
        "emitted_at": stamp(event.emitted_at),
        "payload": event.payload,
    }


def thread_lines(
    thread: UUID, *, entries: int | None, after: int = 0
) -> dict[str, Any]:
    """Return a thread's last lines, in order, and how many stand before them."""
    rows = Entry.objects.filter(thread=thread, number__gt=after).order_by("-number")
    last = list(rows if entries is None else rows[:entries])[::-1]
    left = rows.filter(number__lt=last[0].number).count() if last else 0
    lines = [entry_line(entry) for entry in last]
    return {"id": str(thread), "entries_left": left, "entries": lines}


def entry_line(entry: Entry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "author": {"kind": entry.author_kind, "name": entry.author_name},
        "kind": entry.kind,
        "asks": bool(entry.data and entry.data.get("ask")),
        "body": entry.body,
        "created_at": stamp(entry.created_at),
    }


def runs(
    user: Any,
    *,
    house: House | None = None,
    state: str = "",
    failed: bool = False,
    workflow: str = "",
    limit: int = 50,
) -> dict[str, Any]:
    """Return the newest runs a person may see, the conductor's pulse and idle work."""
    rows = access.runs(user).select_related("workflow", "house").order_by("-created_at")
    if house is not None:
        rows = rows.filter(house=house)
    if workflow:
        rows = rows.filter(workflow__slug=workflow)
    if state or failed:
        rows = rows.filter(state=state or Run.State.FAILED)
    found = list(rows[:limit])
    around = look_around(found)
    return {
        "runs": [run_line(one, around) for one in found],
        "conductor": pulses.conductor(),
        "unclaimed": pulses.unclaimed(user),
        "notes": pulses.notes(user),
    }


def workflows(user: Any, *, house: House | None = None) -> list[dict[str, Any]]:
    """Return the workflows a person may see, each with its last run."""
    houses = thread_access.houses(user)
    rows = Workflow.objects.current().filter(house__in=houses)
    if house is not None:
        rows = rows.filter(house=house)
    newest = Run.objects.filter(workflow=OuterRef("pk")).order_by("-created_at")
    found: list[Any] = list(
        rows.annotate(newest=Subquery(newest.values("pk")[:1]))
        .select_related("house")
        .order_by("house__slug", "slug")
    )
    runs_of = Run.objects.select_related("workflow", "house")
    last = runs_of.in_bulk([flow.newest for flow in found if flow.newest])
    around = look_around(last.values())
    return [workflow_line(flow, last.get(flow.newest), around) for flow in found]


def workflow_line(
    workflow: Workflow, last: Run | None, around: Around
) -> dict[str, Any]:
    return {
        "slug": workflow.slug,
        "name": workflow.name,
        "house": workflow.house.slug,
        "schedule": schedule_words(workflow.schedule),
        "cron": workflow.schedule or None,
        "next_slot_at": stamp_or_none(workflow.next_slot_at),
        "paused": workflow.paused,
        "paused_reason": workflow.paused_reason or None,
        "last_run": run_line(last, around) if last else None,
    }


def schedule_words(line: str) -> str | None:
    """Say a schedule in words; one that has broken since reads as it is written."""
    try:
        return schedules.in_words(line) if line else None
    except schedules.BadSchedule:
        return line


def slots(workflow: Workflow, *, next: int = 5, last: int = 20) -> dict[str, Any]:  # noqa: A002  the words of the ledger's surface
    """Return a workflow's next slots and what became of the last ones."""
    ledger = Slot.objects.filter(workflow=workflow).order_by("-slot_at")[:last]
    coming = islice(coming_slots(workflow), next)
    return {
        "next": [{"slot": stamp(moment)} for moment in coming],
        "last": [slot_line(slot) for slot in ledger],
    }


def coming_slots(workflow: Workflow) -> Iterator[Any]:
    """Yield the slots from the one that fires next on, as far as the calendar goes."""
    slot = workflow.next_slot_at
    schedule = schedules.parse(workflow.schedule) if slot else None
    while slot is not None and schedule is not None:
        yield slot
        slot = schedules.next_after(schedule, slot)


def slot_line(slot: Slot) -> dict[str, Any]:
    return {
        "slot": stamp(slot.slot_at),
        "outcome": slot.outcome,
        "reason": slot.reason or None,
        "count": slot.count,
        "run": str(slot.run_id) if slot.run_id else None,
    }
