"""Reads with a name. No writes, no request."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

from threads import db
from workflows import plan, templating
from workflows.models import Checkpoint, Plan
from workflows.outcomes import Past


@lru_cache(maxsize=1024)
def plan_steps(plan_id: int) -> tuple[dict[str, Any], ...]:
    """Return a plan's steps as stored; plans never change, so they are kept."""
    return tuple(Plan.objects.values_list("steps", flat=True).get(pk=plan_id))


@lru_cache(maxsize=4096)
def step_at(plan_id: int, position: int) -> plan.Step | plan.Unknown | None:
    """Return the step at a position, read leniently; None past the last."""
    steps = plan_steps(plan_id)
    return plan.parse_step(steps[position]) if position < len(steps) else None


# For each advance of a run past its first step.
PAST = """
SELECT position, name, state, error FROM workflows_checkpoint
 WHERE run_id = %(run)s AND state = ANY(%(ended)s) ORDER BY position, iteration
"""
ENDED = [state.value for state in Checkpoint.ENDED]


def past_steps(run_id: UUID, plan_id: int) -> list[Past]:
    """Return the steps behind a run, each at its last iteration, in order."""
    steps = plan_steps(plan_id)
    latest: dict[int, Past] = {}
    rows = db.fetch(PAST, {"run": run_id, "ended": ENDED})
    for position, name, state, error in rows:
        on_error = steps[position].get("on_error", "stop")
        latest[position] = Past(name, state, on_error=on_error, reason=error)
    return [latest[position] for position in sorted(latest)]


def step_results(
    run_id: UUID, names: Sequence[str]
) -> dict[str, templating.StepResult]:
    """Return what earlier steps left for placeholders, by name, the last iteration's."""
    rows = Checkpoint.objects.filter(
        run=run_id, name__in=names, state__in=Checkpoint.ENDED
    )
    return {
        name: templating.StepResult(state, result)
        for name, state, result in rows.order_by("iteration").values_list(
            "name", "state", "result"
        )
    }
