"""Stop a run: at once where nothing executes, else as soon as what runs can be stopped."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from threads import phrases as thread_phrases
from threads import points, text
from threads import services as thread_services
from threads.locking import LockedThread, locked, person_author
from threads.models import Turn
from workflows import phrases, settling, why
from workflows.exceptions import RunSettled
from workflows.models import Run, RunThread


def cancel_run(run_id: UUID, *, by: Any = None, who: str = "", reason: str = "") -> Run:
    """Cancel a run nothing works on; ask a working one to stop.

    Raises RunSettled, saying how and when it ended. Asked twice, it answers the same.
    """
    clean = text.one_line(reason, 300)
    name = who or (person_author(by).name if by else "System")
    wait = RunThread.objects.get(run=run_id)
    with locked(wait.thread_id) as thread:
        run = Run.objects.select_related("workflow").get(pk=run_id)
        if run.state in Run.SETTLED:
            raise RunSettled(why.in_words(run))
        asked = Run.objects.filter(pk=run_id, cancel_asked_at=None).update(
            cancel_asked_at=Now(),
            cancel_words=f"{name}\n{clean}",
            paused_at=None,  # else nobody would take it up to settle it
            paused_words="",
        )
        run.refresh_from_db()
        if asked:
            transaction.on_commit(partial(cancel_down, run_id), robust=True)
        if asked and not settle_idle(thread, run):
            words = phrases.CANCEL_ASKED_BECAUSE if clean else phrases.CANCEL_ASKED
            thread.append(words.format(who=name, reason=clean))
        points.written("cancel")
        run.refresh_from_db()
        return run


def settle_idle(thread: LockedThread, run: Run) -> bool:
    """Settle a run that nothing executes, in the request itself."""
    wait = RunThread.objects.select_related("await_turn").get(run=run)
    turn = wait.await_turn
    if run.state == Run.State.WAITING and wait.awaiting and turn is not None:
        turn = Turn.objects.select_related("bot").get(pk=turn.pk)
        return thread_services.cancel_turn(thread, turn)
    if wait.awaiting and own_child(wait) is not None:
        return False  # settled by cancel_down, or by the end of that run
    idle = Q(state__in=[Run.State.PENDING, Run.State.SLEEPING, Run.State.WAITING])
    return settling.stop(thread, run, guard=idle)


def own_child(wait: RunThread) -> Run | None:
    """Return the run that a run has started, waits for, and takes along when it stops."""
    if wait.await_kind != RunThread.Kind.RUN or wait.await_run is None:
        return None
    child = Run.objects.filter(pk=wait.await_run, parent=wait.run_id)
    return child.filter(state__in=Run.ACTIVE).first()


def cancel_down(parent: UUID) -> None:
    """Cancel the run that a stopping run waits for, then let that one settle too.

    Each in a transaction of its own, after the parent's: whoever settles a child holds
    its thread and then writes the parent's row.
    """
    points.reached("cancel.descending")
    wait = RunThread.objects.filter(run=parent, awaiting=True).first()
    child = own_child(wait) if wait else None
    if wait is None or wait.await_kind != RunThread.Kind.RUN:
        return
    if child is not None and child.cancel_asked_at is None:
        with contextlib.suppress(RunSettled):
            reason = phrases.CANCELLED_WITH.format(run=parent)
            cancel_run(child.pk, who="System", reason=reason)
    with locked(wait.thread_id) as thread:
        run = Run.objects.select_related("workflow", "workflow__house").get(pk=parent)
        woken = Q(state=Run.State.PENDING, cancel_asked_at__isnull=False)
        settling.stop(thread, run, guard=woken)


def overdue_run(run_id: UUID) -> bool:
    """Stop a run that has outlived its deadline; it ends failed, once."""
    wait = RunThread.objects.filter(run=run_id).first()
    if wait is None:
        return False
    with locked(wait.thread_id) as thread:
        run = Run.objects.select_related("workflow", "workflow__house").get(pk=run_id)
        limit = thread_phrases.seconds(run.deadline or 0)
        reason = phrases.RUN_DEADLINE.format(limit=limit)
        stopped = (
            Run.objects.active()
            .filter(pk=run_id, deadline_at__lt=Now(), cancel_asked_at=None)
            .update(
                deadline_at=None,
                overdue=True,
                cancel_asked_at=Now(),
                cancel_words=f"System\n{reason}",
                paused_at=None,
                paused_words="",
            )
        )
        if not stopped:
            # Somebody cancels it already: that is how it ends. Or it is not time yet.
            late = Run.objects.active().filter(pk=run_id, deadline_at__lt=Now())
            late.update(deadline_at=None)
            return False
        run.refresh_from_db()
        transaction.on_commit(partial(cancel_down, run_id), robust=True)
        if not settle_idle(thread, run):
            thread.append(phrases.RUN_OVERDUE.format(limit=limit))
        points.written("overdue")
        return True
