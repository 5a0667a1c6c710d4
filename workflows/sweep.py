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

# Only what may need mending, each part along its partial index: orphans, and who is
# past a due time or a deadline.
SUSPECTS = f"""
SELECT id FROM workflows_run WHERE namespace = %(namespace)s AND {ORPHANED}
UNION
SELECT id FROM workflows_run
 WHERE namespace = %(namespace)s AND state IN ('sleeping', 'waiting')
   AND due_at < statement_timestamp()
UNION
SELECT id FROM workflows_run
 WHERE namespace = %(namespace)s AND deadline_at < statement_timestamp()
LIMIT 1000
"""  # noqa: S608
# A page of the open waits in the order of their runs' ids: those whose turn, gate or run
# has ended, is overdue or has lost its worker, those whose event has come, and those whose
# bot was given another runtime before it began. What they
# wait for is looked up by its key, so that a page costs the same however many there are.
PAGE = """
WITH page AS MATERIALIZED (
    SELECT * FROM workflows_runthread WHERE awaiting AND run_id > %(after)s
     ORDER BY run_id LIMIT %(rows)s
)
SELECT p.run_id, r.namespace = %(namespace)s AND CASE p.await_kind
    WHEN 'turn' THEN t.state IN ('succeeded', 'failed', 'cancelled')
        OR t.due_at < statement_timestamp()
        OR t.state = 'running' AND (t.held_until < statement_timestamp() OR EXISTS
           (SELECT 1 FROM threads_pulse h
             WHERE h.id = t.holder AND h.dead_at IS NOT NULL))
        OR t.state = 'pending' AND t.attempts = 0 AND t.what = 'prompt'
           AND t.needs <> (SELECT b.runtime FROM threads_bot b WHERE b.id = t.bot_id)
    WHEN 'gate' THEN g.state = 'closed' OR g.due_at < statement_timestamp()
    WHEN 'run' THEN c.state IN ('completed', 'failed', 'cancelled')
        OR r.cancel_asked_at IS NOT NULL AND c.cancel_asked_at IS NULL
    WHEN 'event' THEN EXISTS
        (SELECT 1 FROM workflows_event e
          WHERE e.house_id = r.house_id AND e.name = p.event_name
            AND p.event_key IN ('', e.key) AND e.emitted_at >= p.await_started_at)
    ELSE false END
  FROM page p JOIN workflows_run r ON r.id = p.run_id
  LEFT JOIN threads_turn t ON t.id = p.await_turn_id AND p.await_kind = 'turn'
  LEFT JOIN threads_gate g ON g.id = p.await_gate_id AND p.await_kind = 'gate'
  LEFT JOIN workflows_run c ON c.id = p.await_run AND p.await_kind = 'run'
 ORDER BY p.run_id
"""
ROWS = 2000
START = UUID(int=0)


def sweep() -> int:
    """Check every run that may need it, each on its own; return how many were mended."""
    mended, after = begin(), START
    while True:
        more, after = look_at_waits(after)
        mended += more
        if after == START:
            return mended


def begin() -> int:
    """Do what a sweep does before it walks along the waits; return how many it mended."""
    points.reached("sweep.begun")
    begin_resumed()
    fill_seats()
    rows = db.fetch(SUSPECTS, {"namespace": settings.NAMESPACE})
    return sum(mend(row[0]) for row in rows)


def look_at_waits(after: UUID) -> tuple[int, UUID]:
    """Check the next page of open waits; return how many were mended and where it ends.

    It ends at the start again where no page follows.
    """
    facts = {"namespace": settings.NAMESPACE, "after": after, "rows": ROWS}
    rows = db.fetch(PAGE, facts)
    mended = sum(mend(run) for run, suspect in rows if suspect)
    return mended, rows[-1][0] if len(rows) == ROWS else START


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
        mended = reconcile.look(run)
        points.reached("sweep.mended")
    except Exception:
        logger.exception("Run %s could not be checked", run)
        return False
    return mended
