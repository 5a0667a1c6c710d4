"""Claim a run. The row is the claim; the ticket's id is only a hint."""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings

from threads import db
from threads.liveness import known_kinds
from workflows.journal import Held

FITS = "(t.needs = '' OR t.needs = ANY(%(kinds)s))"

# Pick, claim and open the attempt in one statement; what comes back is all that the
# first step needs. A parked run goes on with the attempt that is open.
CLAIM = f"""
WITH picked AS (SELECT {db.fair_pick("workflows_run", fits=FITS)} AS id),
claimed AS (
    UPDATE workflows_run r
       SET state = 'running', holder = %(holder)s, deferred = '',
           held_until = statement_timestamp() + make_interval(secs => %(lease)s),
           attempts = greatest(r.attempts, 1),
           deadline_at = CASE WHEN r.started_at IS NOT NULL THEN r.deadline_at ELSE
               statement_timestamp() + make_interval(secs => r.deadline) END,
           started_at = COALESCE(r.started_at, statement_timestamp())
      FROM picked WHERE r.id = picked.id AND r.state = 'pending'
 RETURNING r.*
), opened AS (
    INSERT INTO workflows_attempt (run_id, number, holder, ended)
    SELECT id, attempts, holder, '' FROM claimed
    ON CONFLICT (run_id, number) DO NOTHING
)
SELECT c.id, c.house_id, c.workflow_id, c.plan_id, c.position, c.iteration, c.attempts,
       c.holder, c.payload, c.key, c.started_at, c.started_by_id,
       c.cancel_asked_at IS NOT NULL, c.failure, w.thread_id, w.worker_bot_id,
       s.state, COALESCE(s.tries, 1), c.root, c.pool, c.retry_of_id
  FROM claimed c JOIN workflows_runthread w ON w.run_id = c.id
  LEFT JOIN workflows_checkpoint s
    ON s.run_id = c.id AND s.position = c.position AND s.iteration = c.iteration
"""  # noqa: S608


@dataclass
class Round:
    """Where this process is in its walk around the houses."""

    after: int = 0


walk = Round()


def claim(*, pool: str, holder: int, hint: UUID | None = None) -> Held | None:
    """Take the hinted run while its house has its share, else the next house's oldest.

    None where nothing is ready for this worker.
    """
    row = db.fetch_one(
        CLAIM,
        {
            "namespace": settings.NAMESPACE,
            "pool": pool,
            "hint": hint or db.NO_HINT,
            "after": walk.after,
            "kinds": sorted(known_kinds),
            "holder": holder,
            "lease": settings.LEASE_SECONDS,
        },
    )
    if row is None:
        return None
    walk.after = row[1]
    held = Held(*row)
    # A raw cursor of Django's hands jsonb over as text.
    held.payload = json.loads(row[8])
    held.failure = json.loads(row[13]) if row[13] is not None else None
    return held
