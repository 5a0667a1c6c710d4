"""The one-run check: whatever a crash or a lost ticket left, mended from the rows."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from threads import db, gates, points, post
from threads import services as thread_services
from threads.liveness import ORPHANED
from threads.locking import locked
from threads.models import Gate, Turn
from workflows import cancelling, events, seams, settling
from workflows.models import Run, RunThread

PATIENCE = 2.0  # seconds a ready row may stay unclaimed before it gets another ticket


def look(run_id: UUID) -> bool:
    """Check one run and mend it; True where something was mended (B18).

    Every repair is the filtered write its first author would have made, so that two
    looks at once, or a look beside a living worker, change nothing twice.
    """
    run = Run.objects.filter(pk=run_id).first()
    if run is None or run.state in Run.SETTLED:
        return False
    if run.namespace != settings.NAMESPACE:
        return False  # it is in the hands of another stack
    if run.deadline_at is not None and cancelling.overdue_run(run_id):
        return True
    match run.state:
        case Run.State.RUNNING:
            return reclaim(run_id)
        case Run.State.SLEEPING:
            return wake(run_id)
        case Run.State.WAITING:
            return mend_wait(run_id)
        case _:
            return nudge(run)


def reclaim(run_id: UUID) -> bool:
    """Take a run from a dead holder and let it go on, or settle it where it must end."""
    wait = RunThread.objects.filter(run=run_id).first()
    if wait is None:
        return False
    with locked(wait.thread_id) as thread:
        run = Run.objects.select_related("workflow", "workflow__house").get(pk=run_id)
        if run.state != Run.State.RUNNING or not settling.reclaim(thread, run):
            return False
        points.written("reclaim")
        pending = Q(state=Run.State.PENDING)
        if run.cancel_asked_at is not None:
            return settling.stop(thread, run, guard=pending)
        failure = settling.died_too_often(run)
        if failure is not None:
            return settling.fail(thread, run, failure, guard=pending)
        post.post_ticket("workflows.advance", run.pool, run.pk, queue=run.pool)
        return True


def wake(run_id: UUID) -> bool:
    """Make a run ready to go on whose time has come: a sleep, or a wait's limit."""
    woken = Run.objects.filter(
        pk=run_id,
        state__in=[Run.State.SLEEPING, Run.State.WAITING],
        due_at__lte=Now(),
    ).update(state=Run.State.PENDING, ready_at=Now(), due_at=None)
    if woken:
        points.reached("wake.committed")
        post.post_ticket("workflows.advance", "steps", run_id, queue="steps")
    return bool(woken)


def mend_wait(run_id: UUID) -> bool:
    """Finish a wait whose turn or gate has ended, or whose deadline has passed."""
    wait = RunThread.objects.filter(run=run_id, awaiting=True).first()
    if wait is None:
        return False
    if wait.await_turn_id is not None and wait.await_kind == RunThread.Kind.TURN:
        return mend_turn(wait, wait.await_turn_id)
    if wait.await_gate_id is not None and wait.await_kind == RunThread.Kind.GATE:
        return mend_gate(wait, wait.await_gate_id)
    return mend_outside(wait)


def mend_outside(wait: RunThread) -> bool:
    """Wake a run whose event has come, whose run has ended or whose time is up."""
    if wait.await_kind == RunThread.Kind.RUN:
        return mend_run(wait)
    run = Run.objects.get(pk=wait.run_id)
    name, key = wait.event_name, wait.event_key
    if events.found(house=run.house_id, run=run.pk, name=name, key=key):
        return settling.wake(run.pk)
    return wake(run.pk)


def mend_run(wait: RunThread) -> bool:
    child = Run.objects.active().filter(pk=str(wait.await_run)).first()
    if child is None:
        return settling.wake(wait.run_id)
    parent = Run.objects.get(pk=wait.run_id)
    if parent.cancel_asked_at is not None and child.cancel_asked_at is None:
        cancelling.cancel_down(parent.pk)
        return True
    return look(child.pk) or wake(parent.pk)


def mend_turn(wait: RunThread, turn_id: UUID) -> bool:
    turn = Turn.objects.select_related("bot").get(pk=turn_id)
    if turn.state in Turn.ACTIVE:
        if is_orphan("threads_turn", turn_id):
            return thread_services.reclaim_turn(turn_id)
        overdue = thread_services.overdue_turn(turn_id)
        return overdue or thread_services.follow_bot(turn_id)
    with locked(wait.thread_id) as thread:
        turn.refresh_from_db()
        seams.turn_settled(turn=turn, thread=thread)
    return True


def mend_gate(wait: RunThread, gate_id: UUID) -> bool:
    gate = Gate.objects.get(pk=gate_id)
    if gate.state == Gate.State.OPEN:
        return gates.expire(gate_id)
    with locked(wait.thread_id) as thread:
        gate.refresh_from_db()
        seams.gate_decided(gate=gate, thread=thread)
    return True


def is_orphan(table: str, row_id: UUID) -> bool:
    found = db.fetch(
        f"SELECT 1 FROM {table} WHERE id = %(id)s AND {ORPHANED}",  # noqa: S608
        {"id": row_id},
    )
    return bool(found)


def nudge(run: Run) -> bool:
    """Post another ticket for a run that has stood ready, where no conductor does.

    A living conductor tops up by itself, within bounds that readers do not know.
    """
    late = db.fetch(
        "SELECT 1 FROM workflows_run WHERE id = %(id)s AND state = 'pending' AND"
        " ready_at < statement_timestamp() - make_interval(secs => %(patience)s)"
        " AND NOT EXISTS (SELECT 1 FROM threads_pulse WHERE role = 'conductor'"
        "  AND namespace = workflows_run.namespace AND dead_at IS NULL"
        "  AND seen_at > statement_timestamp() - make_interval(secs => %(lease)s))",
        {"id": run.pk, "patience": PATIENCE, "lease": settings.LEASE_SECONDS},
    )
    if late:
        post.post_ticket("workflows.advance", run.pool, run.pk, queue=run.pool)
    return False
