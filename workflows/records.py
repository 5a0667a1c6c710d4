"""The steps of a run as its document shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from django.db.models import F, Max, Window

from threads.models import Turn
from workflows import selectors
from workflows.models import Checkpoint, Run
from workflows.moments import stamp_or_none

ITERATIONS = 20  # of one step, the last ones
PROGRESS = 8_000  # characters of what a step at work has written, its end


def steps(run: Run, thread: UUID) -> list[dict[str, Any]]:
    """Return every step of the plan in order, those not begun as pending.

    Of one that ran many times the last iterations stand, each with their number.
    """
    begun: dict[int, list[Any]] = {}
    for row in last_iterations(run):
        begun.setdefault(row.position, []).append(row)
    died = dead_workers(thread)
    so_far = progress(run)
    lines: list[dict[str, Any]] = []
    for position, step in enumerate(selectors.plan_steps(run.plan_id)):
        rows = begun.get(position, [])
        times = (step.get("repeat") or {}).get("times")
        lines += [{**step_line(row, died=died), "times": times} for row in rows]
        if not rows:
            lines.append(pending_line(position, step))
    for line in lines:
        if so_far is not None and here(run, line):
            line["progress"] = so_far
    return lines


def last_iterations(run: Run) -> Iterator[Any]:
    last = Window(Max("iteration"), partition_by="position")
    rows = Checkpoint.objects.filter(run=run).annotate(iterations=last)
    newest = rows.filter(iteration__gt=F("iterations") - ITERATIONS)
    yield from newest.order_by("position", "iteration")


def here(run: Run, line: Mapping[str, Any]) -> bool:
    at = (line["position"], line["iteration"], line["state"])
    return at == (run.position, run.iteration, "waiting")


def progress(run: Run) -> str | None:
    """Return the end of what the turn wrote that the run waits for, if it does."""
    if run.state != Run.State.WAITING:
        return None
    found = selectors.progress(run.pk, most=PROGRESS)
    return selectors.told(found.lines)[-PROGRESS:] if found else None


def dead_workers(thread: UUID) -> dict[str, int]:
    """Return how often a worker died at a step's command or prompt, by done-event."""
    rows = Turn.objects.filter(thread=thread, crashes__gt=0)
    died: dict[str, int] = {}
    for subject, crashes in rows.values_list("subject", "crashes"):
        died[subject] = died.get(subject, 0) + crashes
    return died


def step_line(row: Any, *, died: Mapping[str, int]) -> dict[str, Any]:
    again = f":{row.iteration}" if row.iteration > 1 else ""
    event = f"wf.step.done:{row.run_id}:{row.position}{again}"
    return {
        "position": row.position,
        "iteration": row.iteration,
        "name": row.name,
        "kind": row.kind,
        "state": row.state,
        "attempts": row.tries + row.crashes + died.get(event, 0),
        "started_at": stamp_or_none(row.started_at),
        "finished_at": stamp_or_none(row.finished_at),
        "instruction": row.instruction,
        "result": row.result,
        "error": row.error or None,
        "by_hand": row.by_hand,
        "iterations": row.iterations,
        "progress": None,
    }


def pending_line(position: int, step: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "position": position,
        "iteration": 1,
        "name": step.get("name", ""),
        "kind": step.get("kind", ""),
        "state": "pending",
        "attempts": 0,
        "started_at": None,
        "finished_at": None,
        "instruction": "",
        "result": None,
        "error": None,
        "by_hand": None,
        "iterations": 0,
        "times": (step.get("repeat") or {}).get("times"),
        "progress": None,
    }
