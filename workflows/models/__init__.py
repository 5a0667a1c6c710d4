from __future__ import annotations

from workflows.models.recipes import Plan, Slot, Workflow
from workflows.models.runs import Run, RunKey, Seat
from workflows.models.steps import Attempt, Checkpoint, RunThread
from workflows.models.triggers import Event

__all__ = [
    "Attempt",
    "Checkpoint",
    "Event",
    "Plan",
    "Run",
    "RunKey",
    "RunThread",
    "Seat",
    "Slot",
    "Workflow",
]
