"""The step that a person may end by hand, as the run's page offers it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from workflows import selectors
from workflows.byhand import KNOWN, ROOTS
from workflows.models import Run


@dataclass(frozen=True)
class Hands:
    """A step, and an example of what such a step leaves."""

    step: str
    example: str


def hands_on(run: Run) -> Hands | None:
    """Return the step a run stands at, or a retry would do; None where none is."""
    if run.state == Run.State.COMPLETED or run.state == Run.State.RUNNING:
        return None
    steps = selectors.plan_steps(run.plan_id)
    at = run.position
    if run.failure and run.state in Run.SETTLED:
        names = [step["name"] for step in steps]
        at = names.index(run.failure["step"]) if run.failure["step"] in names else at
    if at >= len(steps):
        return None
    root = ROOTS.get(steps[at]["kind"], {})
    # What the run itself knows is filled in where nobody says otherwise.
    root = {part: value for part, value in root.items() if part not in KNOWN}
    return Hands(steps[at]["name"], json.dumps(root, indent=2))
