"""Runs that a step starts: spawned once, waited for to their end."""

from __future__ import annotations

import contextlib
from typing import Any
from uuid import UUID

from threads import db
from workflows import phrases, services
from workflows.exceptions import NotFound, RunSettled
from workflows.journal import Held
from workflows.models import Checkpoint, Run, Workflow
from workflows.services import Start

DEEPEST = 10  # runs within runs

# The chain of runs above one.
ABOVE = """
WITH RECURSIVE above(id, depth) AS (
    SELECT %(run)s::uuid, 1
    UNION ALL
    SELECT r.parent_id, a.depth + 1 FROM above a JOIN workflows_run r ON r.id = a.id
     WHERE r.parent_id IS NOT NULL AND a.depth <= %(deepest)s
)
SELECT max(depth) FROM above
"""
# All that a run's end hangs on: the run it waits for, or whoever sits where it is held
# back. Would it hang on the waiter, and on nobody who can still go on by himself?
AWAITS = """
WITH RECURSIVE hangs(id) AS (
    SELECT %(child)s::uuid
    UNION
    SELECT n.id FROM hangs h CROSS JOIN LATERAL (
        SELECT w.await_run AS id FROM workflows_runthread w
         WHERE w.run_id = h.id AND w.awaiting AND w.await_kind = 'run'
        UNION ALL
        SELECT s.run_id FROM workflows_run r JOIN workflows_seat s
            ON s.house_id = r.house_id AND s.name = 'workflow:' || r.workflow_id
         WHERE r.id = h.id AND r.state = 'pending' AND r.ready_at IS NULL
           AND r.deferred IN ('seat', 'paused')
    ) n WHERE h.id <> %(run)s
), free(id) AS (
    SELECT h.id FROM hangs h JOIN workflows_run r ON r.id = h.id
      JOIN workflows_workflow f ON f.id = r.workflow_id
     WHERE h.id <> %(run)s
       AND NOT EXISTS (SELECT 1 FROM workflows_runthread w WHERE w.run_id = h.id
                          AND w.awaiting AND w.await_kind = 'run')
       AND NOT (r.state = 'pending' AND r.ready_at IS NULL
                AND r.deferred IN ('seat', 'paused')
                AND (SELECT count(*) >= COALESCE(f."limit", 1)
                            AND NOT COALESCE(bool_or(s.run_id = r.id), false)
                       FROM workflows_seat s WHERE s.house_id = r.house_id
                        AND s.name = 'workflow:' || r.workflow_id))
)
SELECT EXISTS (SELECT 1 FROM hangs WHERE id = %(run)s) AND NOT EXISTS (TABLE free)
"""
# Of two that begin at one moment to wait for places, the second sees the first. After
# the waiter's own thread and before any run's row, so that no two wait crosswise.
LOCK_PLACES = """
SELECT pg_advisory_xact_lock(hashtextextended('places:' || house_id, 0))
  FROM workflows_run
 WHERE id = %(child)s AND state = 'pending' AND ready_at IS NULL
   AND deferred IN ('seat', 'paused')
"""
# The child's row is written, not only read: a settling write that began before sees
# it anew, and then sees who waits.
AWAIT = """
UPDATE workflows_run SET awaited = true
 WHERE id = %(run)s AND state IN ('pending', 'running', 'sleeping', 'waiting')
RETURNING id
"""


class CannotStart(Exception):
    """The step's run cannot be started, and no retry would change that."""


def start(held: Held, *, slug: str, payload: dict[str, Any], key: str) -> Run:
    """Start the step's run, or return the one it has started before it was interrupted.

    Raises CannotStart, or BadPayload.
    """
    parent = Run.objects.select_related("workflow").get(pk=held.id)
    flow = Workflow.objects.current().filter(house=held.house, slug=slug).first()
    if flow is None:
        raise CannotStart(phrases.NO_WORKFLOW.format(slug=slug))
    ((depth,),) = db.fetch(ABOVE, {"run": held.id, "deepest": DEEPEST})
    if depth >= DEEPEST:
        raise CannotStart(phrases.TOO_DEEP.format(most=DEEPEST))
    who = phrases.BY_RUN.format(workflow=parent.workflow.name, run=held.id)
    by = parent.started_by
    begin = Start(trigger=Run.Trigger.RUN, by=by, who=who, parent=parent)
    try:
        return services.spawn_run(flow, payload=payload, key=key, start=begin).run
    except NotFound as error:
        raise CannotStart(str(error)) from None


def await_end(held: Held, child: UUID) -> bool:
    """Mark a run as waited for, in the transaction that parks; False if it has ended.

    Raises CannotStart where it waits, itself or through others, for the waiter: for its
    end, or for a place that nobody else will make room on.
    """
    db.fetch(LOCK_PLACES, {"child": child})
    marked = db.fetch_one(AWAIT, {"run": child})
    ((circle,),) = db.fetch(AWAITS, {"child": child, "run": held.id})
    if circle:
        raise CannotStart(phrases.WAITS_FOR_ITSELF.format(run=child))
    return marked is not None


def result_of(child: Run) -> dict[str, Any]:
    """Return what a run leaves to the step that waited for it."""
    last = (
        Checkpoint.objects.filter(run=child, state=Checkpoint.State.COMPLETED)
        .order_by("-position", "-iteration")
        .values_list("result", flat=True)
        .first()
    )
    return {"run": str(child.pk), "state": child.state, "result": last}


def cancel(child: Run, *, parent: UUID, reason: str) -> None:
    """Cancel the step's own run; one that it only joined goes on."""
    if child.parent_id == parent:
        with contextlib.suppress(RunSettled):
            services.cancel_run(child.pk, who="System", reason=reason)
