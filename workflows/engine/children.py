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
# The chain of what a run waits for: would the waiter be in it?
AWAITS = """
WITH RECURSIVE awaits(id, depth) AS (
    SELECT %(child)s::uuid, 1
    UNION ALL
    SELECT w.await_run, a.depth + 1 FROM awaits a
      JOIN workflows_runthread w ON w.run_id = a.id
     WHERE w.awaiting AND w.await_kind = 'run' AND a.depth < 100
)
SELECT count(*) FROM awaits WHERE id = %(run)s
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

    Raises CannotStart where it waits, itself or through others, for the waiter.
    """
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
