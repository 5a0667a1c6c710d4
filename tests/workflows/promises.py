"""What must hold after whatever has happened in a house, each as one query."""

# ruff: noqa: S608  only words of this file are put into the queries

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threads import db
from threads.models import House

SETTLED = "('completed', 'failed', 'cancelled')"
ENDED = "('completed', 'failed', 'skipped', 'cancelled')"
OURS = "house_id = %(house)s"

# Every row that is over, with all that it holds.
OVER = f"""
SELECT 'run ' || id, md5(r::text) FROM workflows_run r
 WHERE {OURS} AND state IN {SETTLED}
UNION ALL
SELECT 'step ' || c.id, md5(c::text) FROM workflows_checkpoint c
  JOIN workflows_run r ON r.id = c.run_id WHERE r.{OURS} AND c.state IN {ENDED}
UNION ALL
SELECT 'attempt ' || a.id, md5(a::text) FROM workflows_attempt a
  JOIN workflows_run r ON r.id = a.run_id WHERE r.{OURS} AND a.ended_at IS NOT NULL
UNION ALL
SELECT 'turn ' || id, md5(t::text) FROM threads_turn t
 WHERE {OURS} AND state IN ('succeeded', 'failed', 'cancelled')
UNION ALL
SELECT 'gate ' || id, md5(g::text) FROM threads_gate g
 WHERE {OURS} AND state = 'closed'
UNION ALL
SELECT 'event ' || id, md5(e::text) FROM workflows_event e WHERE {OURS}
UNION ALL
SELECT 'entry ' || e.id, md5(e::text) FROM threads_entry e
  JOIN threads_thread t ON t.id = e.thread_id WHERE t.{OURS}
UNION ALL
SELECT 'key ' || k.workflow_id || k.key, k.run_id::text FROM workflows_runkey k
  JOIN workflows_workflow w ON w.id = k.workflow_id WHERE w.{OURS}
"""

# Every row of the house, over or not.
ALL = f"""
SELECT 'run ' || id, md5(r::text) FROM workflows_run r WHERE {OURS}
UNION ALL
SELECT 'step ' || c.id, md5(c::text) FROM workflows_checkpoint c
  JOIN workflows_run r ON r.id = c.run_id WHERE r.{OURS}
UNION ALL
SELECT 'wait ' || w.run_id, md5(w::text) FROM workflows_runthread w
  JOIN workflows_run r ON r.id = w.run_id WHERE r.{OURS}
UNION ALL
SELECT 'turn ' || id, md5(t::text) FROM threads_turn t WHERE {OURS}
UNION ALL
SELECT 'gate ' || id, md5(g::text) FROM threads_gate g WHERE {OURS}
UNION ALL
SELECT 'thread ' || id, md5(t::text) FROM threads_thread t WHERE {OURS}
UNION ALL
SELECT 'seat ' || id, md5(s::text) FROM workflows_seat s WHERE {OURS}
UNION ALL
SELECT 'event ' || id, md5(e::text) FROM workflows_event e WHERE {OURS}
"""

# Each names what is broken and returns the rows that break it.
BROKEN = {
    "a run whose end leaves something open": f"""
SELECT r.id, r.state FROM workflows_run r JOIN workflows_runthread w ON w.run_id = r.id
 WHERE r.{OURS} AND r.state IN {SETTLED} AND (w.awaiting
    OR EXISTS (SELECT 1 FROM threads_gate g
                WHERE g.thread_id = w.thread_id AND g.state = 'open')
    OR EXISTS (SELECT 1 FROM threads_turn t WHERE t.thread_id = w.thread_id
                AND t.state IN ('pending', 'running', 'waiting'))
    OR EXISTS (SELECT 1 FROM workflows_seat s WHERE s.run_id = r.id)
    OR EXISTS (SELECT 1 FROM workflows_attempt a
                WHERE a.run_id = r.id AND a.ended_at IS NULL)
    OR EXISTS (SELECT 1 FROM workflows_checkpoint c
                WHERE c.run_id = r.id AND c.state NOT IN {ENDED}))""",
    "a failure that is not one": f"""
SELECT id, state, failure FROM workflows_run
 WHERE {OURS} AND state IN {SETTLED} AND (failure IS NOT NULL) <> (state = 'failed')""",
    "numbers with a gap": f"""
SELECT t.id, t.last_number, count(e.id), max(e.number) FROM threads_thread t
  LEFT JOIN threads_entry e ON e.thread_id = t.id WHERE t.{OURS} GROUP BY t.id
HAVING count(e.id) <> t.last_number OR coalesce(max(e.number), 0) <> t.last_number""",
    "a run nobody will move": f"""
SELECT r.id, r.state, r.deferred, w.await_kind FROM workflows_run r
  JOIN workflows_runthread w ON w.run_id = r.id
  JOIN workflows_workflow f ON f.id = r.workflow_id
 WHERE r.{OURS} AND r.state NOT IN {SETTLED} AND NOT CASE r.state
  WHEN 'pending' THEN r.ready_at IS NOT NULL OR r.paused_at IS NOT NULL
    OR r.deferred = 'paused'
    OR r.deferred = 'seat' AND (f.paused OR EXISTS (
       SELECT 1 FROM workflows_seat s JOIN workflows_run o ON o.id = s.run_id
        WHERE o.workflow_id = r.workflow_id AND o.state NOT IN {SETTLED}))
  WHEN 'running' THEN EXISTS (SELECT 1 FROM threads_pulse p WHERE p.id = r.holder)
  WHEN 'sleeping' THEN r.due_at IS NOT NULL
  ELSE w.awaiting AND CASE w.await_kind
    WHEN 'turn' THEN EXISTS (SELECT 1 FROM threads_turn t WHERE t.id = w.await_turn_id
         AND t.state IN ('pending', 'running', 'waiting'))
    WHEN 'gate' THEN EXISTS (SELECT 1 FROM threads_gate g
         WHERE g.id = w.await_gate_id AND g.state = 'open')
    WHEN 'run' THEN EXISTS (SELECT 1 FROM workflows_run c
         WHERE c.id = w.await_run AND c.state NOT IN {SETTLED} AND c.awaited)
    WHEN 'event' THEN w.event_name <> '' ELSE false END END""",
    "a turn or gate that waits for nothing": f"""
SELECT t.id, t.state FROM threads_turn t WHERE t.{OURS}
   AND t.state IN ('pending', 'running', 'waiting') AND NOT EXISTS (
       SELECT 1 FROM workflows_runthread w WHERE w.await_turn_id = t.id AND w.awaiting)
    OR t.{OURS} AND t.state = 'waiting' AND NOT EXISTS (
       SELECT 1 FROM threads_gate g WHERE g.turn_id = t.id AND g.state = 'open')
UNION ALL
SELECT g.id, g.state FROM threads_gate g WHERE g.{OURS} AND g.state = 'open'
   AND NOT EXISTS (SELECT 1 FROM workflows_runthread w
                    WHERE w.await_gate_id = g.id AND w.awaiting)
   AND NOT EXISTS (SELECT 1 FROM threads_turn t
                    WHERE t.id = g.turn_id AND t.state = 'waiting')""",
    "a step sent more often than it was tried": f"""
SELECT t.key, count(*), c.tries FROM threads_turn t
  JOIN workflows_runthread w ON w.thread_id = t.thread_id
  JOIN workflows_checkpoint c ON c.run_id = w.run_id AND t.key = c.run_id || ':'
       || c.position || CASE WHEN c.iteration > 1 THEN ':' || c.iteration ELSE '' END
 WHERE t.{OURS} GROUP BY t.key, c.tries HAVING count(*) > c.tries""",
    "a step before its time, or none behind the run": f"""
SELECT r.id, r.position, c.position FROM workflows_run r
  JOIN workflows_checkpoint c ON c.run_id = r.id
 WHERE r.{OURS} AND (c.position > r.position OR c.position = r.position
       AND c.iteration > r.iteration)
UNION ALL
SELECT r.id, r.position, p FROM workflows_run r, generate_series(0, r.position - 1) p
 WHERE r.{OURS} AND NOT EXISTS (SELECT 1 FROM workflows_checkpoint c
       WHERE c.run_id = r.id AND c.position = p AND c.state IN {ENDED})""",
}
# All of them in one question: it is asked after every step of a story.
CHECK = " UNION ALL ".join(
    f"SELECT '{what}', x::text FROM ({query}) x" for what, query in BROKEN.items()
)
COUNTED = f"""
SELECT id, attempts, position, iteration FROM workflows_run WHERE {OURS}
"""
# Who is at work at this moment in workflows with places, and how many there are.
CROWDED = f"""
SELECT f.slug, count(*), coalesce(f."limit", 1) FROM workflows_run r
  JOIN workflows_workflow f ON f.id = r.workflow_id
 WHERE r.{OURS} AND r.state NOT IN {SETTLED} AND r.started_at IS NOT NULL
   AND f.slug = ANY(%(strict)s)
 GROUP BY f.id HAVING count(*) > coalesce(f."limit", 1)
"""


class Kept:
    """What a house had before, so that what must not change is seen to stay."""

    def __init__(self, house: House) -> None:
        self.house = {"house": house.pk}
        self.over: dict[str, str] = {}
        self.counts: dict[str, tuple[int, ...]] = {}

    def check(self, *, strict: list[str]) -> None:
        assert db.fetch(CHECK, self.house) == []
        crowd = db.fetch(CROWDED, {**self.house, "strict": strict})
        assert ("more at once than promised", crowd) == (
            "more at once than promised",
            [],
        )
        self.nothing_over_changed()
        self.nothing_went_back()

    @contextmanager
    def nothing_changes(self, why: str) -> Iterator[None]:
        before: dict[str, str] = dict(db.fetch(ALL, self.house))
        yield
        after: dict[str, str] = dict(db.fetch(ALL, self.house))
        keys = {*before, *after}
        changed = sorted(key for key in keys if before.get(key) != after.get(key))
        assert (why, changed) == (why, [])

    def nothing_over_changed(self) -> None:
        now: dict[str, str] = dict(db.fetch(OVER, self.house))
        changed = [key for key, value in self.over.items() if now.get(key) != value]
        assert ("settled rows that changed", changed) == (
            "settled rows that changed",
            [],
        )
        self.over = now

    def nothing_went_back(self) -> None:
        for run, *counts in db.fetch(COUNTED, self.house):
            attempts, *place = counts
            before, *behind = self.counts.get(str(run), (0, 0, 0))
            assert attempts >= before
            assert place >= behind
            self.counts[str(run)] = tuple(counts)
