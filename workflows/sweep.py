"""Repair what a crash left between two writes: a loop over the one-run check."""

from __future__ import annotations

import logging
from uuid import UUID

from django.conf import settings
from django.db import transaction

from threads import db, points
from threads.liveness import ORPHANED
from workflows import authoring, reconcile, seats
from workflows.models import Run, Workflow

logger = logging.getLogger(__name__)

# Only what may need mending, each part along its partial index: orphans, sleepers past
# their time, waits whose turn or gate has ended, is overdue or has lost its worker.
SUSPECTS = f"""
SELECT id FROM workflows_run WHERE namespace = %(namespace)s AND {ORPHANED}
UNION
SELECT id FROM workflows_run
 WHERE namespace = %(namespace)s AND state IN ('sleeping', 'waiting')
   AND due_at < statement_timestamp()
UNION
SELECT id FROM workflows_run
 WHERE namespace = %(namespace)s AND deadline_at < statement_timestamp()
UNION
SELECT w.run_id FROM workflows_runthread w JOIN workflows_run r ON r.id = w.run_id
  JOIN workflows_run c ON c.id = w.await_run
 WHERE w.awaiting AND w.await_kind = 'run' AND r.namespace = %(namespace)s
   AND (c.state IN ('completed', 'failed', 'cancelled')
        OR r.cancel_asked_at IS NOT NULL AND c.cancel_asked_at IS NULL)
UNION
SELECT w.run_id FROM workflows_runthread w JOIN workflows_run r ON r.id = w.run_id
 WHERE w.awaiting AND w.await_kind = 'event' AND r.namespace = %(namespace)s
   AND EXISTS (SELECT 1 FROM workflows_event e
                WHERE e.house_id = r.house_id AND e.name = w.event_name
                  AND w.event_key IN ('', e.key)
                  AND e.emitted_at >= w.await_started_at)
UNION
SELECT w.run_id FROM workflows_runthread w JOIN workflows_run r ON r.id = w.run_id
  JOIN threads_turn t ON t.id = w.await_turn_id
 WHERE w.awaiting AND w.await_kind = 'turn' AND r.namespace = %(namespace)s
   AND (t.state IN ('succeeded', 'failed', 'cancelled')
        OR t.due_at < statement_timestamp()
        OR t.state = 'running' AND (t.held_until < statement_timestamp() OR EXISTS
           (SELECT 1 FROM threads_pulse p
             WHERE p.id = t.holder AND p.dead_at IS NOT NULL)))
UNION
SELECT w.run_id FROM workflows_runthread w JOIN workflows_run r ON r.id = w.run_id
  JOIN threads_gate g ON g.id = w.await_gate_id
 WHERE w.awaiting AND w.await_kind = 'gate' AND r.namespace = %(namespace)s
   AND (g.state = 'closed' OR g.due_at < statement_timestamp())
LIMIT 1000
"""  # noqa: S608


def sweep() -> int:
    """Check every run that may need it, each on its own; return how many were mended."""
    points.reached("sweep.begun")
    begin_resumed()
    fill_seats()
    mended = 0
    for (run,) in db.fetch(SUSPECTS, {"namespace": settings.NAMESPACE}):
        mended += mend(run)
        points.reached("sweep.mended")
    return mended


def begin_resumed() -> None:
    """Let runs begin that a start held back while its workflow was being resumed."""
    held = Run.objects.filter(
        namespace=settings.NAMESPACE, state=Run.State.PENDING, deferred=Run.PAUSED
    )
    for workflow in Workflow.objects.filter(
        pk__in=held.values("workflow"), paused=False
    ):
        with transaction.atomic():
            authoring.begin_held(workflow)


def fill_seats() -> None:
    """Seat whoever waits although a place is free."""
    waiting = Run.objects.filter(
        namespace=settings.NAMESPACE, state=Run.State.PENDING, deferred=Run.NO_SEAT
    )
    for workflow in Workflow.objects.filter(
        pk__in=waiting.values("workflow"), paused=False
    ):
        with transaction.atomic():
            seats.fill(workflow)


def mend(run: UUID) -> bool:
    try:
        return reconcile.look(run)
    except Exception:
        logger.exception("Run %s could not be checked", run)
        return False
