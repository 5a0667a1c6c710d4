"""Runs in hand and the record of their steps: recall, record, park, settle, reclaim.

Every statement that settles something carries the fence (state, holder, attempt) in its
WHERE: a zombie's write matches no row and changes nothing else either, because every
other part of the statement reads from the fenced one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from threads import artifacts, db, points
from threads.artifacts import Haul
from threads.ids import new_id
from threads.locking import SYSTEM, Author
from threads.models import Entry
from threads.text import clean
from workflows.models import Run


@dataclass
class Held:
    """A run in hand: what its claim returned, moved on as its steps are recorded."""

    id: UUID
    house: int
    workflow: UUID
    plan: int
    position: int
    iteration: int
    attempts: int
    holder: int
    payload: dict[str, Any]
    key: str
    started_at: datetime
    started_by: int | None
    cancel_asked: bool
    failure: dict[str, Any] | None
    thread: UUID
    bot: int
    step_state: str | None
    step_tries: int
    root: str = ""
    pool: str = "steps"
    retry_of: UUID | None = None
    paused: bool = False  # asked for since the claim
    since: float = field(default_factory=time.monotonic)  # when it was surely in hand

    def fence(self) -> Q:
        return Q(state=Run.State.RUNNING, holder=self.holder, attempts=self.attempts)


@dataclass(frozen=True)
class Line:
    """An entry to be written with a record."""

    body: str
    kind: str = Entry.Kind.NOTE
    author: Author = SYSTEM
    data: dict[str, Any] | None = None


@dataclass(frozen=True)
class Ended:
    """How a step ended, as it is recorded."""

    name: str
    kind: str
    state: str
    instruction: str = ""
    result: Mapping[str, Any] | None = None
    error: str = ""
    stops: bool = False
    final: bool = False  # neither to be tried nor to be repeated
    again: bool = False  # another iteration follows
    reason: str = ""  # of the step as a whole, where iterations came before
    event: str = ""  # what it emits
    lines: Sequence[Line] = field(default_factory=tuple)
    haul: Haul | None = None  # the files it leaves


# One statement, one commit: lock the thread, move the run on while the fence holds and
# extend the claim, number and write the entries, write the step, close its wait.
# FOR NO KEY UPDATE and not the UPDATE itself takes the lock, so that a write without
# its fence leaves no gap in the thread's numbers.
RECORDING = """
WITH thread AS MATERIALIZED (
    SELECT id FROM threads_thread WHERE id = %(thread)s FOR NO KEY UPDATE
), moved AS (
    UPDATE workflows_run r
       SET position = %(next_position)s, iteration = %(next_iteration)s, crashes = 0,
           needs = '',
           held_until = statement_timestamp() + make_interval(secs => %(lease)s),
           failure = COALESCE(r.failure, %(failure)s::jsonb)
      FROM thread
     WHERE r.id = %(run)s AND r.state = 'running'
       AND r.holder = %(holder)s AND r.attempts = %(attempts)s
 RETURNING r.id, r.house_id, r.cancel_asked_at IS NOT NULL AS cancel_asked,
           r.paused_at IS NOT NULL AS paused
), numbered AS (
    UPDATE threads_thread t SET last_number = t.last_number + %(count)s
      FROM moved WHERE t.id = %(thread)s AND %(count)s > 0
 RETURNING t.last_number - %(count)s AS before
), entry AS (
    INSERT INTO threads_entry (thread_id, number, author_kind, author_name, bot_id,
                               person_id, kind, body, data)
    SELECT %(thread)s, numbered.before + e.n, e.author_kind, e.author_name, e.bot_id,
           e.person_id, e.kind, e.body, e.data
      FROM numbered, jsonb_to_recordset(%(entries)s::jsonb) AS e(
           n int, author_kind text, author_name text, bot_id bigint, person_id bigint,
           kind text, body text, data jsonb)
), unparked AS (
    UPDATE workflows_runthread w SET awaiting = false, updated_at = statement_timestamp()
      FROM moved WHERE w.run_id = moved.id AND w.awaiting
), step AS (
    INSERT INTO workflows_checkpoint AS c (run_id, position, iteration, tries, crashes,
        name, kind, state, instruction, entry, result, error, started_at, finished_at)
    SELECT moved.id, %(position)s, %(iteration)s, %(tries)s, 0, %(name)s, %(kind)s,
           %(state)s, %(instruction)s, (SELECT before + 1 FROM numbered), %(result)s::jsonb,
           %(error)s, statement_timestamp(), statement_timestamp()
      FROM moved
    ON CONFLICT (run_id, position, iteration) DO UPDATE
       SET state = excluded.state, result = excluded.result, error = excluded.error,
           instruction = COALESCE(NULLIF(excluded.instruction, ''), c.instruction),
           finished_at = excluded.finished_at
){emitted}
SELECT cancel_asked, paused FROM moved
"""
RECORD = RECORDING.replace("{emitted}", "")
# First write wins: the event of a step that waited outside (A20).
RECORD_AND_TELL = RECORDING.replace(
    "{emitted}",
    """, emitted AS (
    INSERT INTO workflows_event (house_id, name, key, payload)
    SELECT house_id, %(event)s, id::text, %(told)s::jsonb FROM moved
    ON CONFLICT DO NOTHING
)""",
)


# One statement for what every start writes beside its run: a thread of its own, bound to
# the bot, System's first words in it, and which run it is of.
OPEN_THREAD = """
WITH thread AS (
    INSERT INTO threads_thread (id, house_id, title, kind, bot_id, trigger_mode, last_number)
    VALUES (%(thread)s, %(house)s, %(title)s, 'run', %(bot)s, 'always', 1) RETURNING id
), entry AS (
    INSERT INTO threads_entry (thread_id, number, author_kind, author_name, kind, body)
    SELECT id, 1, %(author_kind)s, %(author_name)s, %(kind)s, %(words)s FROM thread
)
INSERT INTO workflows_runthread (run_id, thread_id, worker_bot_id, await_key, await_kind,
                                 event_name, event_key, queue, awaiting)
SELECT %(run)s, id, %(bot)s, '', '', '', '', 'steps', false FROM thread RETURNING thread_id
"""


def open_thread(run: UUID, *, house: int, bot: int, title: str, words: str) -> None:
    """Open the thread of a new run with System's first words."""
    facts = {"run": run, "thread": new_id(), "house": house, "bot": bot}
    db.fetch(
        OPEN_THREAD,
        {
            **facts,
            "title": title[:200],
            "words": clean(words),
            "kind": Entry.Kind.NOTE.value,
            "author_kind": SYSTEM.kind,
            "author_name": SYSTEM.name,
        },
    )


def as_json(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def entries_json(lines: Sequence[Line]) -> str:
    return json.dumps(
        [
            {
                "n": number,
                "author_kind": line.author.kind,
                "author_name": line.author.name,
                "bot_id": line.author.bot,
                "person_id": line.author.person,
                "kind": line.kind,
                "body": line.body,
                "data": line.data,
            }
            for number, line in enumerate(lines, 1)
        ],
        ensure_ascii=False,
    )


def record(held: Held, ended: Ended) -> bool:
    """Record a step that ended under the claim and move the run on; False if fenced.

    `ended.stops` says that the step has failed as a whole and stops the run.
    """
    failure = None
    if ended.stops:
        failure = {"step": ended.name, "reason": ended.reason or ended.error}
    after = (held.position, held.iteration + 1) if ended.again else None
    position, iteration = after or (held.position + 1, 1)
    row = write(
        ended,
        {
            "next_position": position,
            "next_iteration": iteration,
            "run": held.id,
            "thread": held.thread,
            "holder": held.holder,
            "attempts": held.attempts,
            "position": held.position,
            "iteration": held.iteration,
            "tries": max(held.step_tries, 1),
            "lease": settings.LEASE_SECONDS,
            "failure": as_json(failure),
            "count": len(ended.lines),
            "entries": entries_json(ended.lines),
            "name": ended.name,
            "kind": ended.kind,
            "state": ended.state,
            "instruction": ended.instruction,
            "result": as_json(ended.result),
            "error": ended.error,
            "event": ended.event,
            "told": as_json({"state": ended.state, "reason": ended.error}),
        },
    )
    if row is None:
        return False
    held.since = time.monotonic()
    held.position, held.iteration = position, iteration
    held.step_state, held.step_tries = None, 1
    held.cancel_asked, held.paused = row
    held.failure = held.failure or failure
    return True


def write(ended: Ended, facts: Mapping[str, Any]) -> db.Row | None:
    """Write the record, and with it the rows of the files the step leaves."""
    statement = RECORD_AND_TELL if ended.event else RECORD
    if ended.haul is None:
        return db.fetch_one(statement, facts)
    with transaction.atomic():
        row = db.fetch_one(statement, facts)
        if row is not None:
            artifacts.record(ended.haul)
        return row


def in_hand(held: Held) -> bool:
    """Whether the run is still this process's own; the row is asked only after a pause.

    A process that stood still begins nothing of what another has taken over meanwhile.
    """
    if time.monotonic() - held.since < settings.LEASE_SECONDS / 2:
        return True
    return Run.objects.filter(held.fence(), pk=held.id).exists()


def release(held: Held, *, needs: str = "", reason: str = "") -> bool:
    """Hand a run back: its slice is spent, or this code does not know its next step."""
    released = Run.objects.filter(held.fence(), pk=held.id).update(
        state=Run.State.PENDING,
        holder=None,
        held_until=None,
        ready_at=Now(),
        needs=needs,
        deferred=reason,
    )
    points.reached("release.committed")
    return bool(released)
