"""Parking a run on a turn, a gate or a time, and its step beside it.

Inside a locked thread, as everything that touches more than the run's own row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from threads import db, post
from workflows.journal import Held, as_json
from workflows.models import Run, RunThread


@dataclass(frozen=True)
class Park:
    """What a run waits for, and until when."""

    kind: str
    key: str
    turn: UUID | None = None
    gate: UUID | None = None
    run: UUID | None = None
    event: tuple[str, str] = ("", "")  # its name, and the key or nothing
    seconds: float | None = None


# The lease and the holder end with the move into a wait; the due time is the
# database's own clock plus the seconds asked for. A run asked to cancel never parks:
# nothing would come to stop what it waits for.
PARK = """
WITH parked AS (
    UPDATE workflows_run
       SET state = %(state)s, holder = NULL, held_until = NULL, ready_at = NULL,
           needs = '', pool = 'steps',
           due_at = statement_timestamp() + make_interval(secs => %(seconds)s)
     WHERE id = %(run)s AND state = ANY(%(states)s) AND cancel_asked_at IS NULL
       AND (%(holder)s::bigint IS NULL
            OR (holder = %(holder)s AND attempts = %(attempts)s))
 RETURNING id, due_at
)
UPDATE workflows_runthread w
   SET await_kind = %(kind)s, await_key = %(key)s, await_turn_id = %(turn)s,
       await_gate_id = %(gate)s, await_run = %(awaited)s, event_name = %(event)s,
       event_key = %(event_key)s, await_started_at = statement_timestamp(),
       awaiting = true, updated_at = statement_timestamp()
  FROM parked WHERE w.run_id = parked.id
RETURNING parked.due_at
"""


def park(held: Held, wait: Park) -> tuple[bool, datetime | None]:
    """Park a run in hand, inside a locked thread; (False, None) where it was fenced."""
    return parked(
        held.id,
        wait,
        states=[Run.State.RUNNING.value],
        holder=held.holder,
        attempts=held.attempts,
    )


def parked(
    run: UUID,
    wait: Park,
    *,
    states: list[str],
    holder: int | None = None,
    attempts: int = 0,
) -> tuple[bool, datetime | None]:
    asleep = wait.kind == RunThread.Kind.TIME
    row = db.fetch_one(
        PARK,
        {
            "run": run,
            "state": "sleeping" if asleep else "waiting",
            "states": states,
            "holder": holder,
            "attempts": attempts,
            "seconds": wait.seconds,
            "kind": wait.kind,
            "key": wait.key,
            "turn": wait.turn,
            "gate": wait.gate,
            "awaited": wait.run,
            "event": wait.event[0],
            "event_key": wait.event[1],
        },
    )
    if row is None:
        return False, None
    if wait.seconds is not None and wait.seconds < 1:
        post.wake_conductor()
    return True, row[0]


OPEN_STEP = """
INSERT INTO workflows_checkpoint AS c (run_id, position, iteration, tries, crashes,
    name, kind, state, instruction, entry, result, error)
VALUES (%(run)s, %(position)s, %(iteration)s, %(tries)s, 0, %(name)s, %(kind)s,
        %(state)s, %(instruction)s, %(entry)s, %(result)s::jsonb, %(error)s)
ON CONFLICT (run_id, position, iteration) DO UPDATE
   SET tries = excluded.tries, state = excluded.state, error = excluded.error,
       instruction = excluded.instruction, entry = COALESCE(excluded.entry, c.entry),
       result = COALESCE(excluded.result, c.result)
RETURNING id
"""


def open_step(
    held: Held,
    *,
    name: str,
    kind: str,
    state: str,
    instruction: str,
    entry: int | None = None,
    result: Mapping[str, Any] | None = None,
    error: str = "",
) -> None:
    """Write the step that has begun and is not finished, inside a locked thread."""
    db.fetch(
        OPEN_STEP,
        {
            "run": held.id,
            "position": held.position,
            "iteration": held.iteration,
            "tries": held.step_tries,
            "name": name,
            "kind": kind,
            "state": state,
            "instruction": instruction,
            "entry": entry,
            "result": as_json(result),
            "error": error,
        },
    )
