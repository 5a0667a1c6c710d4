"""The ends of a run and of an attempt: settle, and take from the dead."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import F, Q
from django.db.models.functions import Now

from threads import db, gates
from threads.liveness import ORPHANED
from threads.locking import LockedThread
from workflows import phrases, selectors
from workflows.journal import Held
from workflows.models import Attempt, Checkpoint, Run, RunThread, Seat


def settle(
    thread: LockedThread,
    run: Run,
    *,
    state: str,
    guard: Q,
    failure: dict[str, str] | None = None,
    words: str = "",
) -> bool:
    """Settle a run in a locked thread: its gates, wait, steps, attempt and seat too.

    False where the guard no longer holds; nothing is written then.
    """
    settled = (
        Run.objects.active()
        .filter(guard, pk=run.pk)
        .update(
            state=state,
            holder=None,
            held_until=None,
            due_at=None,
            ready_at=None,
            deferred="",
            finished_at=Now(),
            failure=failure,
        )
    )
    if not settled:
        return False
    gates.withdraw(thread)
    RunThread.objects.filter(run=run, awaiting=True).update(
        awaiting=False, updated_at=Now()
    )
    Checkpoint.objects.filter(run=run).exclude(state__in=Checkpoint.ENDED).update(
        state=Checkpoint.State.CANCELLED
        if state == Run.State.CANCELLED
        else Checkpoint.State.FAILED,
        error=failure["reason"] if failure else "",
        finished_at=Now(),
    )
    Attempt.objects.filter(run=run, ended_at=None).update(
        ended_at=Now(), ended=Attempt.Ended.SETTLED
    )
    Seat.objects.filter(run=run).delete()
    thread.append(words)
    return True


def reclaim(thread: LockedThread, run: Run) -> bool:
    """Take a run from the dead holder it was read with and count the attempt.

    Inside a locked thread. False where another reclaim was first, or the holder still
    lives: then nothing is written.
    """
    taken = db.fetch_one(
        "UPDATE workflows_run SET state = 'pending', holder = NULL,"  # noqa: S608
        " held_until = NULL, ready_at = statement_timestamp(),"
        " attempts = attempts + 1, crashes = crashes + 1"
        " WHERE id = %(id)s AND holder = %(holder)s AND attempts = %(attempts)s"
        f" AND {ORPHANED} RETURNING id",
        {"id": run.pk, "holder": run.holder, "attempts": run.attempts},
    )
    if taken is None:
        return False
    Attempt.objects.filter(run=run, number=run.attempts, ended_at=None).update(
        ended_at=Now(), ended=Attempt.Ended.CRASHED
    )
    Checkpoint.objects.filter(
        run=run, position=run.position, iteration=run.iteration
    ).exclude(state__in=Checkpoint.ENDED).update(crashes=F("crashes") + 1)
    run.refresh_from_db()
    return True


def give_up(held: Held) -> None:
    """Let the lease of a run in hand lapse: the conductor counts it as a crash."""
    Run.objects.filter(held.fence(), pk=held.id).update(
        held_until=Now() - timedelta(seconds=1)
    )


def died_too_often(run: Run) -> dict[str, str] | None:
    """Return the failure of a run whose workers died once too often at one step."""
    if run.crashes < run.max_attempts:
        return None
    step = selectors.step_at(run.plan_id, run.position)
    reason = phrases.WORKER_DIED.format(count=run.crashes)
    return {"step": step.name if step else "", "reason": reason}
