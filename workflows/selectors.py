"""Reads with a name. No writes, no request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

from threads import db
from threads.models import TurnMessage
from workflows import outcomes, plan, templating
from workflows.models import Checkpoint, Plan, Run
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
SELECT position, name, state, error, by_hand IS NOT NULL FROM workflows_checkpoint
 WHERE run_id = %(run)s AND state = ANY(%(ended)s) ORDER BY position, iteration
"""
ENDED = [state.value for state in Checkpoint.ENDED]


def past_steps(run_id: UUID, plan_id: int, *, before: int | None = None) -> list[Past]:
    """Return the steps behind a run in order, each as its iterations together ended."""
    rows = db.fetch(PAST, {"run": run_id, "ended": ENDED})
    ends: dict[int, list[tuple[str, str]]] = {}
    names: dict[int, str] = {}
    for position, name, state, error, by_hand in rows:
        if by_hand:  # that ends the step as a whole
            ends.pop(position, None)
        ends.setdefault(position, []).append((state, error))
        names[position] = name
    steps = plan_steps(plan_id)
    past = []
    for position in sorted(ends):
        if before is not None and position >= before:
            break  # a step that repeats is not behind the run yet
        state, reason = outcomes.repeated(repeat_at(plan_id, position), ends[position])
        on_error = steps[position].get("on_error", "stop")
        past.append(Past(names[position], state, on_error=on_error, reason=reason))  # type: ignore[arg-type]
    return past


def repeat_at(plan_id: int, position: int) -> plan.Repeat | None:
    """Return how the step at a position repeats; None where it does not."""
    if "repeat" not in plan_steps(plan_id)[position]:
        return None
    step = step_at(plan_id, position)
    known = step is not None and not isinstance(step, plan.Unknown)
    return plan.repeat_of(step) if known else None  # type: ignore[arg-type]


def iterations(run_id: UUID, position: int) -> list[tuple[str, str]]:
    """Return state and reason of each iteration of a step that has ended, in order."""
    rows = Checkpoint.objects.filter(
        run=run_id, position=position, state__in=Checkpoint.ENDED
    )
    return list(rows.order_by("iteration").values_list("state", "error"))


def step_results(
    run_id: UUID, names: Sequence[str]
) -> dict[str, templating.StepResult]:
    """Return what earlier steps left for placeholders, by name, the last iteration's.

    One that ran more than once has all of them too, under `iterations`.
    """
    rows = Checkpoint.objects.filter(
        run=run_id, name__in=names, state__in=Checkpoint.ENDED
    )
    fields = "name", "iteration", "state", "result", "error"
    found: dict[str, list[tuple[int, str, Any, str]]] = {}
    for name, *end in rows.order_by("iteration").values_list(*fields):
        found.setdefault(name, []).append(tuple(end))
    return {name: result_of(ends) for name, ends in found.items()}


def result_of(ends: list[tuple[int, str, Any, str]]) -> templating.StepResult:
    _, state, result, _ = ends[-1]
    if len(ends) > 1:
        each = [
            {**(kept or {}), "iteration": number, "state": how, "error": error}
            for number, how, kept, error in ends
        ]
        failed = [one for one in each if one["state"] == "failed"]
        result = {**(result or {}), "iterations": each, "failed": failed}
    return templating.StepResult(state, result)


@dataclass(frozen=True)
class Progress:
    """What the turn a run waits for has written since a line of its log."""

    turn: UUID
    last: int
    lines: tuple[tuple[str, str], ...]  # kind and words, in order


# For a run's document, page and follower: the log of the turn it waits for. A model's
# last words are left to the entry that they become.
PROGRESS = """
SELECT t.id, t.state, m.number, m.kind, right(m.body->>'text', %(most)s)
  FROM workflows_runthread w
  JOIN threads_turn t ON t.id = w.await_turn_id AND t.state IN ('pending', 'running')
  LEFT JOIN threads_turnmessage m ON m.turn_id = t.id AND m.number > %(after)s
   AND (m.kind = 'output' AND NOT (m.body ? 'draft' AND (
         m.body->>'draft' <> t.attempts::text OR EXISTS (
         SELECT 1 FROM threads_turnmessage l WHERE l.turn_id = t.id
            AND l.number > m.number AND l.kind <> 'output')))
        OR m.kind = 'model' AND m.body->>'move' <> 'final')
 WHERE w.run_id = %(run)s AND w.awaiting
 ORDER BY m.number DESC NULLS LAST LIMIT %(rows)s
"""
LOG_ROWS = 2000  # of about one a second


def progress(run_id: UUID, *, most: int, after: int = 0) -> Progress | None:
    """Return what the open turn wrote, or None where none is at work or has been."""
    found = db.fetch(
        PROGRESS, {"run": run_id, "after": after, "most": most, "rows": LOG_ROWS}
    )
    rows = [row for row in reversed(found) if row[2] is not None]
    if not rows and (not found or (found[0][1] == "pending" and not after)):
        return None
    lines = tuple((kind, words or "") for *_, kind, words in rows)
    return Progress(found[0][0], rows[-1][2] if rows else after, lines)


# For a run's document: what the models of its turns have used. A message of a bot without
# a model has no usage; a price that is not known makes the sum unknown.
USAGE = """
SELECT count(*), sum((m.body->'usage'->>'input_tokens')::bigint),
       sum((m.body->'usage'->>'output_tokens')::bigint),
       CASE WHEN bool_and(m.body->'usage'->>'cost' IS NOT NULL)
            THEN sum((m.body->'usage'->>'cost')::numeric) END
  FROM threads_turn t
  JOIN threads_turnmessage m ON m.turn_id = t.id AND m.kind = 'model'
 WHERE t.thread_id = %(thread)s AND m.body ? 'usage'
"""


def usage(thread: UUID) -> dict[str, Any] | None:
    """Return the requests, tokens and cost (US dollars) of a thread, if any."""
    row = db.fetch_one(USAGE, {"thread": thread})
    if row is None or not row[0]:
        return None
    cost = float(row[3]) if row[3] is not None else None
    return {
        "requests": row[0],
        "input_tokens": int(row[1] or 0),
        "output_tokens": int(row[2] or 0),
        "cost": cost,
    }


def told(lines: Iterable[tuple[str, str]], *, before: str = "") -> str:
    """Return a log as one text: output as it came, a model's words on their own lines."""
    parts = [before]
    ends = not before or before.endswith("\n")
    for kind, words in lines:
        if kind == TurnMessage.Kind.MODEL:
            words = f"{words.strip()}\n" if words.strip() else ""
            words = words if ends or not words else f"\n{words}"
        if words:
            parts.append(words)
            ends = words.endswith("\n")
    return "".join(parts)


def retries(run_id: UUID) -> list[tuple[UUID, str]]:
    """Return the runs that retry this one and their states, oldest first."""
    rows = Run.objects.filter(retry_of=run_id).order_by("created_at", "pk")
    return list(rows.values_list("pk", "state"))
