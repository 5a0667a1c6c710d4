"""The runs that belong to a run: its retries, and those its steps have started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from workflows import documents, selectors
from workflows.models import Run
from workflows.shown.chips import STATES, Chip

FEW = 10  # runs that steps have started, the last ones


@dataclass(frozen=True)
class Kin:
    """A run that retries this one, or that a step of it has started."""

    run: UUID
    chip: Chip

    @property
    def short(self) -> str:
        return documents.short(self.run)


def retries(run: Run, doc: Mapping[str, Any]) -> list[Kin]:
    states = dict(selectors.retries(run.pk)) if doc["retries"] else {}
    return [Kin(pk, Chip(state, STATES[state])) for pk, state in states.items()]


def children(run: Run, doc: Mapping[str, Any]) -> list[Kin]:
    """Return the last runs that steps of this one have started."""
    found = Run.objects.filter(pk__in=doc["children"][-FEW:]).order_by("created_at")
    states = found.values_list("pk", "state")
    return [Kin(pk, Chip(state, STATES[state])) for pk, state in states]
