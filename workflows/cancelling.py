"""Stop a run: at once where nothing executes, else as soon as what runs can be stopped."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now

from threads import services as thread_services
from threads import text
from threads.locking import LockedThread, locked, person_author
from threads.models import Turn
from workflows import phrases, seams, why
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
            cancel_asked_at=Now(), cancel_words=f"{name}\n{clean}"
        )
        run.refresh_from_db()
        if asked and not settle_idle(thread, run):
            words = phrases.CANCEL_ASKED_BECAUSE if clean else phrases.CANCEL_ASKED
            thread.append(words.format(who=name, reason=clean))
        run.refresh_from_db()
        return run


def settle_idle(thread: LockedThread, run: Run) -> bool:
    """Settle a run that nothing executes, in the request itself."""
    wait = RunThread.objects.select_related("await_turn").get(run=run)
    turn = wait.await_turn
    if run.state == Run.State.WAITING and wait.awaiting and turn is not None:
        turn = Turn.objects.select_related("bot").get(pk=turn.pk)
        return thread_services.cancel_turn(thread, turn)
    idle = Q(state__in=[Run.State.PENDING, Run.State.SLEEPING, Run.State.WAITING])
    return seams.cancel_settled(thread, run, guard=idle)
