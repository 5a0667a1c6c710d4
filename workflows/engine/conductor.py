"""The loop that wakes what is due, tops up tickets and notices the dead.

It executes no work. Any number may run: every write is filtered, every due row is taken
with SKIP LOCKED. If none runs, beat's sweep does the same more slowly.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
from django.conf import settings
from django.db import (
    DatabaseError,
    InterfaceError,
    OperationalError,
    connection,
    transaction,
)
from psycopg.errors import LockNotAvailable

from threads import burial, db, gates, liveness, points, post, services, sessions
from threads.liveness import ORPHANED
from threads.runtime import jobs
from workflows import cancelling, reconcile, slots, sweep
from workflows.engine import tickets

logger = logging.getLogger(__name__)

TICK_SECONDS = 0.5  # the longest it waits; a nearer due time or a notice wakes it
BATCH = 500

WAKE = """
UPDATE workflows_run SET state = 'pending', ready_at = statement_timestamp(),
       due_at = NULL
 WHERE id IN (SELECT id FROM workflows_run
               WHERE namespace = %(namespace)s AND state IN ('sleeping', 'waiting')
                 AND due_at <= statement_timestamp()
               ORDER BY due_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED)
   AND state IN ('sleeping', 'waiting')
RETURNING id, pool
"""
DUE = {
    "workflows_run": "state IN ('running', 'waiting', 'pending', 'sleeping')",
    "threads_gate": "state = 'open'",
    "threads_turn": "state IN ('pending', 'running', 'waiting')",
}
# The next time anything is due, each read off its partial index. What was due before the
# last round began is in other hands, or broken: it must not hide what comes next.
NEXT = """
SELECT extract(epoch FROM least(
    (SELECT min(due_at) FROM workflows_run
      WHERE namespace = %(namespace)s AND due_at > {began}),
    (SELECT min(deadline_at) FROM workflows_run
      WHERE namespace = %(namespace)s AND deadline_at > {began}),
    (SELECT min(due_at) FROM threads_gate
      WHERE namespace = %(namespace)s AND due_at > {began}),
    (SELECT min(due_at) FROM threads_turn
      WHERE namespace = %(namespace)s AND due_at > {began}),
    (SELECT w.next_slot_at FROM workflows_workflow w JOIN threads_house h
         ON h.id = w.house_id AND h.namespace = %(namespace)s
      WHERE w.next_slot_at > {began} ORDER BY w.next_slot_at LIMIT 1)
) - clock_timestamp())::float
""".format(began="statement_timestamp() - make_interval(secs => %(round)s)")  # noqa: S608


class Conductor:
    def __init__(self) -> None:
        self.watch = burial.Watch()
        self.ear: psycopg.Connection[Any] | None = None
        self.next_sweep = 0.0
        self.swept = sweep.START
        self.next_top_up = 0.0
        self.stopping = False

    def run(self) -> None:
        """Go round until told to stop; a fault in one part leaves the others going."""
        liveness.here.begin("conductor")
        while not self.stopping:
            began = time.monotonic()
            self.guarded(self.wait_little)
            self.turn_round()
            self.listen(self.seconds_to_next(since=began))
        liveness.here.end()

    def wait_little(self) -> None:
        """Let no row that another holds, as one who stands still, hold up the rest."""
        if not connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"]:  # no pooler
            db.fetch("SELECT set_config('lock_timeout', '1s', false)", {})

    def stop(self, *args: object) -> None:
        self.stopping = True

    def turn_round(self) -> None:
        for part in (
            self.wake_sleepers,
            self.close_gates,
            self.end_turns,
            self.stop_overdue,
            self.fire_schedules,
            self.bury_the_dead,
            self.top_up,
            self.sweep,
        ):
            self.guarded(part)

    def turn_all(self) -> None:
        """Go round once and look at every wait, not at a page of them."""
        self.turn_round()
        while self.swept != sweep.START:
            self.sweep()

    def guarded(self, part: Callable[[], None]) -> None:
        if self.stopping:
            return
        try:
            part()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("The database did not answer the conductor: %s", error)
            connection.close()
        except Exception:
            logger.exception("The conductor could not %s", part.__name__)

    def each(self, act: Callable[[UUID], object], rows: list[UUID]) -> None:
        """Act on each row on its own: one that cannot be mended holds up no other."""
        for row in rows:
            try:
                act(row)
            except (OperationalError, InterfaceError) as error:
                if not isinstance(error.__cause__, LockNotAvailable):
                    raise
                logger.warning("Somebody holds %s; it is looked at again", row)
            except Exception:
                logger.exception("The conductor could not mend %s", row)

    def wake_sleepers(self) -> None:
        rows: list[db.Row] = [()] * BATCH
        while len(rows) == BATCH:
            with transaction.atomic():
                rows = db.fetch(WAKE, {"namespace": settings.NAMESPACE, "batch": BATCH})
                if rows:
                    points.written("wake")
                for run, pool in rows:
                    post.post_ticket("workflows.advance", pool, run, queue=pool)

    def due(self, table: str) -> list[UUID]:
        rows = db.fetch(
            f"SELECT id FROM {table} WHERE namespace = %(namespace)s"  # noqa: S608
            f" AND due_at <= statement_timestamp() AND {DUE[table]}"
            " ORDER BY due_at LIMIT %(batch)s",
            {"namespace": settings.NAMESPACE, "batch": BATCH},
        )
        return [row[0] for row in rows]

    def close_gates(self) -> None:
        self.each(gates.expire, self.due("threads_gate"))

    def end_turns(self) -> None:
        self.each(services.overdue_turn, self.due("threads_turn"))

    def stop_overdue(self) -> None:
        """Stop the runs that have outlived their deadline."""
        rows = db.fetch(
            "SELECT id FROM workflows_run WHERE namespace = %(namespace)s"
            " AND deadline_at <= statement_timestamp()"
            " ORDER BY deadline_at LIMIT %(batch)s",
            {"namespace": settings.NAMESPACE, "batch": BATCH},
        )
        self.each(cancelling.overdue_run, [row[0] for row in rows])

    def fire_schedules(self) -> None:
        rows = db.fetch(
            "SELECT w.id FROM workflows_workflow w JOIN threads_house h"
            " ON h.id = w.house_id WHERE h.namespace = %(namespace)s"
            " AND w.next_slot_at <= statement_timestamp()"
            " ORDER BY w.next_slot_at LIMIT %(batch)s",
            {"namespace": settings.NAMESPACE, "batch": BATCH},
        )
        for (workflow,) in rows:
            self.guarded_slot(workflow)

    def guarded_slot(self, workflow: UUID) -> None:
        """Fire one schedule; a broken row disables only itself and is shown broken."""
        try:
            slots.fire_due(workflow)
        except (DatabaseError, InterfaceError):
            raise
        except Exception as error:
            logger.exception("The schedule of workflow %s is broken", workflow)
            slots.disable(workflow, str(error))

    def bury_the_dead(self) -> None:
        """Stamp dead workers and take what they held, and what a lease let go."""
        if self.watch.look():
            points.reached("conductor.stamped")
        self.each(reconcile.reclaim, self.orphans("workflows_run"))
        self.each(services.reclaim_turn, self.orphans("threads_turn"))
        jobs.reclaim_orphans()

    def orphans(self, table: str) -> list[UUID]:
        rows = db.fetch(
            f"SELECT id FROM {table} WHERE namespace = %(namespace)s"  # noqa: S608
            f" AND {ORPHANED} LIMIT %(batch)s",
            {"namespace": settings.NAMESPACE, "batch": BATCH},
        )
        return [row[0] for row in rows]

    def top_up(self) -> None:
        """Post tickets for rows unclaimed for two seconds, never more than few."""
        if time.monotonic() < self.next_top_up:
            return
        self.next_top_up = time.monotonic() + reconcile.PATIENCE
        tickets.top_up()

    def sweep(self) -> None:
        """Sweep now and then, a page of the waits a round: nobody due waits for it."""
        if time.monotonic() >= self.next_sweep:
            self.next_sweep = time.monotonic() + settings.SWEEP_SECONDS
            sweep.begin()
        elif self.swept == sweep.START:
            return
        _, self.swept = sweep.look_at_waits(self.swept)

    def seconds_to_next(self, *, since: float) -> float:
        """Return how long nothing is due; none where something fell due meanwhile."""
        facts = {"namespace": settings.NAMESPACE, "round": time.monotonic() - since}
        try:
            row = db.fetch_one(NEXT, facts)
        except (DatabaseError, InterfaceError):
            connection.close()
            return TICK_SECONDS
        seconds = row[0] if row and row[0] is not None else TICK_SECONDS
        return float(min(max(seconds, 0.0), TICK_SECONDS))

    def listen(self, seconds: float) -> None:
        """Wait, or less when a due time nearer than that is announced."""
        try:
            if self.ear is None or self.ear.closed:
                self.ear = sessions.open_session()
                self.ear.execute(f'LISTEN "{post.channel()}"')
            for _ in self.ear.notifies(timeout=seconds, stop_after=1):
                pass
        except psycopg.Error as error:
            logger.warning("The conductor lost its ear: %s", error)
            self.ear = None
            liveness.pause(seconds)
