"""The one door and the verbs of runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from threads import db, points, post, text
from threads.locking import person_author
from workflows import (
    cancelling,
    journal,
    overruling,
    pausing,
    payloads,
    phrases,
    reconcile,
    retrying,
    seats,
)
from workflows.byhand import Hand
from workflows.exceptions import NotFound, RunSettled
from workflows.models import Run, RunKey, RunThread, Seat, Workflow

cancel_run = cancelling.cancel_run
look = reconcile.look
skip_step = overruling.skip_step
set_result = overruling.set_result
end_step = overruling.end_step
pause_run = pausing.pause_run
resume_run = pausing.resume_run


@dataclass(frozen=True)
class Spawned:
    """The run a start was given, and how it came by it."""

    run: Run
    new: bool
    joined: bool = False


@dataclass(frozen=True)
class Start:
    """Who starts a run, how, and what it keeps of an earlier one."""

    trigger: str = Run.Trigger.MANUAL
    by: Any = None
    who: str = ""
    retry_of: Run | None = None
    parent: Run | None = None
    position: int = 0
    overlap: str = ""
    note: str = ""
    hand: Hand | None = None  # of the step before the position

    def name(self) -> str:
        return self.who or (person_author(self.by).name if self.by else "System")


def spawn_run(
    workflow: Workflow,
    *,
    payload: object = None,
    key: str = "",
    start: Start | None = None,
) -> Spawned:
    """Start a run of the workflow as it reads now, in a thread of its own.

    One write that commits or rolls back with the caller's own. A caller that repeats a
    key gets the run it already has; one that finds the seat taken is handed the run that
    sits there. Raises BadPayload or NotFound (a deleted workflow); nothing is kept then.
    """
    start = start or Start()
    kept = payloads.checked(payload)
    payloads.checked_key(key)
    while True:
        with transaction.atomic():
            fresh = Workflow.objects.current().select_related("house", "bot")
            row = fresh.filter(pk=workflow.pk).first()
            if row is None:
                raise NotFound(f"The workflow “{workflow.slug}” has been deleted.")
            run = insert_run(row, payload=kept, key=key, start=start)
            standing = taken_key(run, key) or taken_seat(run, row, start)
            if standing is None:
                open_run_thread(run, row, start)
                if not replaces(row, run) or displace(run, row):
                    return Spawned(run, new=True)
                standing = Standing(run.pk, seat=True)
            transaction.set_rollback(True)
        found = hand_back(row, standing, key)
        if found is not None:
            return found


def insert_run(
    workflow: Workflow, *, payload: dict[str, Any], key: str, start: Start
) -> Run:
    old = start.retry_of
    run = Run.objects.create(
        house=workflow.house,
        namespace=workflow.house.namespace,
        workflow=workflow,
        plan_id=old.plan_id if old else workflow.plan_id,
        payload=payload,
        trigger=start.trigger,
        key=key,
        max_attempts=workflow.max_attempts,
        deadline=workflow.deadline,
        parent=start.parent,
        started_by=start.by,
        retry_of=old,
        root=old.root if old else "",
        position=start.position,
        **({"ready_at": None, "deferred": Run.PAUSED} if workflow.paused else {}),
    )
    db.leave_to_database(run, "ready_at", "created_at")
    return run


@dataclass(frozen=True)
class Standing:
    """The run that stands where a new one wanted to be."""

    run: UUID
    seat: bool = False


def taken_key(run: Run, key: str) -> Standing | None:
    if not key:
        return None
    mine = RunKey(workflow_id=run.workflow_id, key=key, run=run)
    RunKey.objects.bulk_create([mine], ignore_conflicts=True)
    kept = RunKey.objects.get(workflow_id=run.workflow_id, key=key)
    return None if kept.run_id == run.pk else Standing(kept.run_id)


def taken_seat(run: Run, workflow: Workflow, start: Start) -> Standing | None:
    """Sit down, or return where the run stands that does; a paused start sits later."""
    rule = seats.rule(workflow, start.overlap)
    if rule is None or (workflow.paused and rule.overlap != Workflow.Overlap.JOIN):
        return None
    holders = seats.take(run, places=rule.places)
    if not holders:
        return None
    match rule.overlap:
        case Workflow.Overlap.REPLACE:
            seats.hold_back(run)
            return None
        case Workflow.Overlap.WAIT if not waits_already(workflow, start):
            return None if seats.wait(run, holders) else Standing(run.pk, seat=True)
        case _:
            return Standing(holders[-1], seat=True)


def replaces(workflow: Workflow, run: Run) -> bool:
    return workflow.overlap == Workflow.Overlap.REPLACE and run.deferred == Run.NO_SEAT


def waits_already(workflow: Workflow, start: Start) -> bool:
    """Return whether a slot's run waits: one is enough, more would only pile up."""
    scheduled = start.trigger == Run.Trigger.SCHEDULE
    return scheduled and seats.waiting_runs(workflow).exists()


def displace(run: Run, workflow: Workflow) -> bool:
    """Ask whoever sits to stop, and take those who waited out; False to begin anew.

    Their threads are locked until this start commits, so that the seat is handed to it.
    """
    sitting = Seat.objects.filter(house=run.house_id, name=seats.name(workflow.pk))
    others = {*sitting.values_list("run", flat=True)} | {
        *seats.waiting_runs(workflow).values_list("pk", flat=True)
    }
    order = RunThread.objects.filter(run__in=others - {run.pk}).order_by("thread")
    reason = phrases.REPLACED.format(run=run.pk)
    try:
        for wait in order:
            cancel_run(wait.run_id, who="System", reason=reason)
    except RunSettled:
        return False
    return True


def hand_back(workflow: Workflow, standing: Standing, key: str) -> Spawned | None:
    """Return the standing run, or None where its seat has come free meanwhile."""
    if not standing.seat:
        kept = Run.objects.filter(pk=standing.run).first()
        if kept is None:
            raise NotFound(f"The run started with the key “{key}” is no longer kept.")
        return Spawned(kept, new=False)
    with transaction.atomic():
        holder = (
            Run.objects.select_for_update(of=("self",)).filter(pk=standing.run).first()
        )
        if holder is None or holder.state in Run.SETTLED:
            return None
        if key:
            mine = RunKey(workflow=workflow, key=key, run=holder)
            RunKey.objects.bulk_create([mine], ignore_conflicts=True)
        points.written("join")
        return Spawned(holder, new=False, joined=True)


def open_run_thread(run: Run, workflow: Workflow, start: Start) -> None:
    """Open the run's own thread, keep what it keeps, and post its ticket."""
    journal.open_thread(
        run.pk,
        house=workflow.house_id,
        bot=workflow.bot_id,
        title=workflow.name,
        words=started_words(run, start),
    )
    if start.retry_of is not None:
        retrying.keep_steps(run, start.retry_of, hand=start.hand, who=start.name())
    points.written("spawn")
    if not run.deferred:
        post.post_ticket("workflows.advance", run.pool, run.pk, queue=run.pool)


def started_words(run: Run, start: Start) -> str:
    if start.note:
        return start.note
    if run.payload:
        shown = text.one_line(journal.as_json(run.payload) or "", 500)
        return phrases.STARTED_WITH.format(who=start.name(), payload=shown)
    return phrases.STARTED_BY.format(who=start.name())


def retry_run(
    run: Run,
    *,
    by: Any = None,
    from_step: str = "",
    who: str = "",
    payload: object = None,
    hand: Hand | None = None,
) -> Spawned:
    """Start a new run that keeps the finished steps before the one to do again.

    With a hand, that step is not done again: it ends by hand, and the run begins after
    it. With a payload, that replaces the one of the run.
    Without a step named, it begins at the first that failed. Raises RunActive for a
    run that has not ended, NotFound or NotReached for a step it cannot begin at.
    """
    position, names = retrying.begins_at(run, from_step)
    kept = ", ".join(names[:position]) or phrases.NOTHING_KEPT
    start = Start(trigger=Run.Trigger.RETRY, by=by, who=who)
    note = phrases.RETRY_OF.format(who=start.name(), run=run.pk, kept=kept)
    if payload is not None and payload != run.payload:
        given = journal.as_json(payloads.checked(payload)) or ""
        note += phrases.RETRY_PAYLOAD.format(payload=text.one_line(given, 500))
    return spawn_run(
        run.workflow,
        payload=run.payload if payload is None else payload,
        start=Start(
            trigger=Run.Trigger.RETRY,
            by=by,
            who=who,
            retry_of=run,
            position=position + (1 if hand else 0),
            note=note,
            hand=hand,
        ),
    )
