"""Hold a run where it stands, and let it go on."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Case, F, Q, When
from django.db.models.functions import Now

from threads import points, post, text
from threads.locking import locked, person_author
from workflows import phrases, why
from workflows.exceptions import NotPaused, RunSettled, RunStopping
from workflows.models import Run, RunThread

# Held back by something else too: that decides when it may begin.
HELD_BACK = Q(deferred__in=[Run.NO_SEAT, Run.PAUSED])
GO_ON = Case(
    When(HELD_BACK, then=F("ready_at")),
    When(state=Run.State.PENDING, then=Now()),
    default=F("ready_at"),
)


def pause_run(run_id: UUID, *, by: Any = None, who: str = "", reason: str = "") -> Run:
    """Let what executes now go on to its end, and no further step begin.

    Answers and events are still taken, and the deadline still counts. Raises RunSettled,
    or RunStopping. Asked twice, it answers the same.
    """
    clean = text.one_line(reason, 300)
    name = who or (person_author(by).name if by else "System")
    wait = RunThread.objects.get(run=run_id)
    with locked(wait.thread_id) as thread:
        run = standing(run_id)
        if run.cancel_asked_at is not None:
            raise RunStopping
        paused = (
            Run.objects.active()
            .filter(pk=run_id, paused_at=None)
            .update(paused_at=Now(), paused_words=f"{name}\n{clean}")
        )
        if paused:
            words = phrases.RUN_PAUSED_BECAUSE if clean else phrases.RUN_PAUSED
            thread.append(words.format(who=name, reason=clean))
        run.refresh_from_db()
        points.written("pause")
        return run


def resume_run(run_id: UUID, *, by: Any = None, who: str = "") -> Run:
    """Let a paused run go on where it stands. Raises RunSettled, or NotPaused."""
    name = who or (person_author(by).name if by else "System")
    wait = RunThread.objects.get(run=run_id)
    with locked(wait.thread_id) as thread:
        run = standing(run_id)
        resumed = (
            Run.objects.active()
            .filter(pk=run_id, paused_at__isnull=False)
            .update(paused_at=None, paused_words="", ready_at=GO_ON)
        )
        if not resumed:
            raise NotPaused
        thread.append(phrases.RUN_RESUMED.format(who=name))
        run.refresh_from_db()
        points.written("resume")
        if run.state == Run.State.PENDING and run.ready_at is not None:
            post.post_ticket("workflows.advance", run.pool, run.pk, queue=run.pool)
        return run


def standing(run_id: UUID) -> Run:
    run = Run.objects.select_related("workflow").get(pk=run_id)
    if run.state in Run.SETTLED:
        raise RunSettled(why.in_words(run))
    return run
