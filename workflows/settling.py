"""The ends of a run and of an attempt: settle, and take from the dead."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db.models import F, Q
from django.db.models.functions import Now

from threads import db, gates, points, post
from threads.liveness import ORPHANED
from threads.locking import SYSTEM, LockedThread
from threads.models import Entry
from workflows import notify, phrases, seats, selectors
from workflows.journal import Held
from workflows.models import Attempt, Checkpoint, Run, RunThread


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
            deadline_at=None,
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
    seats.hand_over(run)
    thread.append(words)
    points.written("settle")
    wake_waiting(run.pk)
    return True


def fail(thread: LockedThread, run: Run, failure: dict[str, str], *, guard: Q) -> bool:
    """Settle a run as failed and tell the members its workflow names."""
    words = phrases.FAILED.format(**failure)
    settled = settle(
        thread, run, state=Run.State.FAILED, guard=guard, failure=failure, words=words
    )
    if settled:
        notify.failed(run, failure)
    return settled


def stop(thread: LockedThread, run: Run, *, guard: Q) -> bool:
    """Settle a run that is to stop: cancelled, or failed where its deadline passed."""
    if run.overdue:
        step = selectors.step_at(run.plan_id, run.position)
        name = step.name if step else ""
        failure = {"step": name, "reason": run.cancel_words.partition("\n")[2]}
        return fail(thread, run, failure, guard=guard)
    who, _, reason = run.cancel_words.partition("\n")
    words = (
        phrases.CANCELLED_BECAUSE.format(who=who, reason=reason)
        if reason
        else phrases.CANCELLED.format(who=who or "System")
    )
    return settle(thread, run, state=Run.State.CANCELLED, guard=guard, words=words)


def wake(run: UUID) -> bool:
    """Make a waiting run ready, so that its next claim sees what it waited for."""
    woken = Run.objects.filter(pk=run, state=Run.State.WAITING).update(
        state=Run.State.PENDING, ready_at=Now(), due_at=None
    )
    if woken:
        post.post_ticket("workflows.advance", "steps", run, queue="steps")
    return bool(woken)


# Single-row writes that need no thread: who was woken sees the end when it is claimed.
WAKE_WAITING = """
UPDATE workflows_run r
   SET state = 'pending', ready_at = statement_timestamp(), due_at = NULL
  FROM workflows_runthread w
 WHERE w.await_run = %(run)s AND w.awaiting AND w.await_kind = 'run'
   AND r.id = w.run_id AND r.state = 'waiting'
RETURNING r.id, r.pool
"""


def wake_waiting(run: UUID) -> None:
    """Let the runs go on that wait for the end of this one, in its settling write."""
    for waiting, pool in db.fetch(WAKE_WAITING, {"run": run}):
        post.post_ticket("workflows.advance", pool, waiting, queue=pool)


# One statement, one commit, for a run that has nothing to let go of but its claim; any
# other matches no row and ends by `settle`. What could open a gate or a wait, or stamp
# a cancel, first takes the thread or the run: the run's row is then read anew, and the
# schema refuses to commit what was missed.
COMPLETE = """
WITH thread AS MATERIALIZED (
    SELECT id FROM threads_thread WHERE id = %(thread)s FOR NO KEY UPDATE
), settled AS (
    UPDATE workflows_run r
       SET state = 'completed', holder = NULL, held_until = NULL, due_at = NULL,
           deadline_at = NULL, ready_at = NULL, deferred = '', failure = NULL,
           finished_at = statement_timestamp()
      FROM thread
     WHERE r.id = %(run)s AND r.state = 'running' AND r.cancel_asked_at IS NULL
       AND NOT r.awaited
       AND r.holder = %(holder)s AND r.attempts = %(attempts)s
       AND NOT EXISTS (SELECT 1 FROM workflows_seat s WHERE s.run_id = r.id)
       AND NOT EXISTS (SELECT 1 FROM workflows_runthread w
                        WHERE w.run_id = r.id AND w.awaiting)
       AND NOT EXISTS (SELECT 1 FROM threads_gate g
                        WHERE g.thread_id = thread.id AND g.state = 'open')
 RETURNING r.id
), numbered AS (
    UPDATE threads_thread t SET last_number = t.last_number + 1
      FROM settled WHERE t.id = %(thread)s
 RETURNING t.last_number
), entry AS (
    INSERT INTO threads_entry (thread_id, number, author_kind, author_name, kind, body)
    SELECT %(thread)s, last_number, %(author_kind)s, %(author_name)s, %(kind)s, %(words)s
      FROM numbered
), attempt AS (
    UPDATE workflows_attempt a SET ended_at = statement_timestamp(), ended = 'settled'
      FROM settled WHERE a.run_id = settled.id AND a.ended_at IS NULL
)
SELECT id FROM settled
"""


def complete(held: Held, words: str) -> bool:
    """Settle a run in hand as completed where only its claim is left; False elsewhere."""
    row = db.fetch_one(
        COMPLETE,
        {
            "run": held.id,
            "thread": held.thread,
            "holder": held.holder,
            "attempts": held.attempts,
            "author_kind": SYSTEM.kind,
            "author_name": SYSTEM.name,
            "kind": Entry.Kind.NOTE.value,
            "words": words,
        },
    )
    return row is not None


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
