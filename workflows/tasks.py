"""Celery's entrance to workflows, three lines a task."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from threads import liveness
from threads import tasks as thread_tasks
from workflows import plan, slots
from workflows.engine import advance
from workflows.engine.conductor import Conductor
from workflows.models import Run

liveness.known_kinds.update(plan.KINDS)
liveness.held_models.append(Run)


@shared_task(name="workflows.advance")
def advance_run(pool: str, hint: str = "") -> int:
    holder = thread_tasks.here().id
    return advance.advance(pool=pool, holder=holder, hint=thread_tasks.as_id(hint))


@shared_task(name="workflows.fire")
def fire(workflow: str) -> None:
    slots.fire_due(UUID(workflow))


@shared_task(name="workflows.sweep")
def sweep_all() -> None:
    Conductor().turn_all()  # what a conductor does, where none runs
