"""Events: emitted once a key, found by whoever waits, before or after.

Emitter and waiter both take an advisory lock on (house, name) before any row, so that
an event is either seen by the waiter that parks or wakes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from threads import db, points, post, text
from threads.models import House
from workflows import payloads
from workflows.exceptions import BadEvent
from workflows.journal import as_json
from workflows.models import Event

NAME_LIMIT = 200
OURS = "wf."  # names that only the engine emits
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%(house)s || ':' || %(name)s, 0))"
# Who waits for any event of the name, or for the one with this key, goes on.
WAKE = """
UPDATE workflows_run r
   SET state = 'pending', ready_at = statement_timestamp(), due_at = NULL
  FROM workflows_runthread w
 WHERE w.event_name = %(name)s AND w.awaiting AND w.await_kind = 'event'
   AND w.event_key IN ('', %(key)s) AND r.id = w.run_id
   AND r.house_id = %(house)s AND r.state = 'waiting'
RETURNING r.id, r.pool
"""
# A key names one event whenever it came; without one, the next that the run has not had.
FOUND = """
SELECT e.id, e.payload, e.key, e.emitted_at FROM workflows_event e
 WHERE e.house_id = %(house)s AND e.name = %(name)s
   AND CASE WHEN %(key)s <> '' THEN e.key = %(key)s
       ELSE e.emitted_at >= (SELECT created_at FROM workflows_run WHERE id = %(run)s)
        AND e.id > COALESCE((SELECT max((c.result->>'id')::bigint)
             FROM workflows_checkpoint c
            WHERE c.run_id = %(run)s AND c.kind = 'wait_for_event'
              AND c.state = 'completed' AND c.result->>'event' = %(name)s), 0) END
 ORDER BY e.id LIMIT 1
"""


@dataclass(frozen=True)
class Emitted:
    """The event as it stands, whether it is new, and whom it woke."""

    event: Event
    new: bool
    woken: tuple[UUID, ...] = ()


def emit_event(
    house: House, name: str, *, payload: object = None, key: str = ""
) -> Emitted:
    """Emit an event: what waits for it goes on, and with a key only the first counts.

    Raises BadEvent or BadPayload; nothing is kept then.
    """
    checked_name(name)
    kept = payloads.checked(payload)
    payloads.checked_key(key)
    with transaction.atomic():
        lock(house.pk, name)
        standing = key and Event.objects.filter(house=house, name=name, key=key).first()
        if standing:
            return Emitted(standing, new=False)
        event = Event(house=house, name=name, key=key or None, payload=kept)
        event.save(force_insert=True)
        db.leave_to_database(event, "emitted_at")
        facts = {"house": house.pk, "name": name, "key": key}
        woken = db.fetch(WAKE, facts)
        points.written("emit")
        for run, pool in woken:
            post.post_ticket("workflows.advance", pool, run, queue=pool)
    return Emitted(event, new=True, woken=tuple(run for run, _ in woken))


def checked_name(name: str) -> None:
    try:
        text.refuse(name, where="name")
    except text.Unclean as error:
        raise BadEvent(str(error)) from None
    if not name.strip() or len(name) > NAME_LIMIT or name != name.strip():
        raise BadEvent(f"name: must be 1 to {NAME_LIMIT} characters, no blanks around")
    if name.startswith(OURS):
        raise BadEvent(f"name: those beginning with “{OURS}” are kept for steps")


def lock(house: int, name: str) -> None:
    """Take the lock of an event's name until the transaction ends."""
    db.fetch(LOCK, {"house": str(house), "name": name})


def found(*, house: int, run: UUID, name: str, key: str) -> dict[str, Any] | None:
    """Return what a waiting step gets of the event it waits for, or None."""
    row = db.fetch_one(FOUND, {"house": house, "run": run, "name": name, "key": key})
    if row is None:
        return None
    number, payload, own_key, _ = row
    data = payloads.loaded(payload)
    return {"event": name, "payload": data, "key": own_key or "", "id": number}


def told(payload: dict[str, Any]) -> str:
    """Return a payload as one short line."""
    return text.one_line(as_json(payload) or "", 500)
