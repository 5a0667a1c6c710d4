"""Who is dead: looked at twice, then written down."""

from __future__ import annotations

import time
from collections.abc import Iterable

from django.conf import settings

from threads import db
from threads.sessions import LOCK_CLASS

LOOK_SECONDS = 5  # a database or session younger than this says nothing of the dead


class Watch:
    """Looks twice before it calls a process dead."""

    def __init__(self) -> None:
        self.suspects: set[int] = set()
        self.seen_at = 0.0

    def look(self) -> list[int]:
        """Stamp and return the pulses whose lock stood free in two looks.

        Reads pg_locks and never tries a lock, so that looking cannot make a living
        process fail to take its own back. A database or session younger than five
        seconds says nothing: after a restart everyone's lock is free for a moment.
        """
        free = {
            row[0]
            for row in db.fetch(
                "SELECT p.id FROM threads_pulse p WHERE p.dead_at IS NULL"
                " AND p.locked AND p.namespace = %(namespace)s"
                " AND p.started_at < statement_timestamp() - interval '0.5 s'"
                " AND NOT EXISTS (SELECT 1 FROM pg_locks l"
                "  WHERE l.locktype = 'advisory' AND l.granted"
                "  AND l.classid = %(class)s AND l.objid::bigint = p.id %% 2147483648"
                "  AND l.database = (SELECT oid FROM pg_database"
                "   WHERE datname = current_database()))"
                " AND (SELECT backend_start FROM pg_stat_activity"
                "  WHERE pid = pg_backend_pid())"
                "  < statement_timestamp() - make_interval(secs => %(young)s)"
                " AND pg_postmaster_start_time()"
                "  < statement_timestamp() - make_interval(secs => %(young)s)",
                {
                    "namespace": settings.NAMESPACE,
                    "class": LOCK_CLASS,
                    "young": LOOK_SECONDS,
                },
            )
        }
        if time.monotonic() - self.seen_at < 0.5:
            return []
        dead = sorted(free & self.suspects)
        self.suspects, self.seen_at = free - set(dead), time.monotonic()
        return stamp([*dead, *unheard()])


def unheard() -> list[int]:
    """Return the pulses without a lock that have not been seen for a whole lease."""
    rows = db.fetch(
        "SELECT id FROM threads_pulse WHERE dead_at IS NULL AND NOT locked"
        " AND namespace = %(namespace)s AND pg_postmaster_start_time()"
        "  < statement_timestamp() - make_interval(secs => %(young)s) AND seen_at"
        "  < statement_timestamp() - make_interval(secs => %(lease)s)",
        {
            "namespace": settings.NAMESPACE,
            "young": LOOK_SECONDS,
            "lease": settings.LEASE_SECONDS,
        },
    )
    return [row[0] for row in rows]


def stamp(pulses: Iterable[int]) -> list[int]:
    """Write down that these processes are dead; return those that were not yet."""
    return [
        row[0]
        for row in db.fetch(
            "UPDATE threads_pulse SET dead_at = statement_timestamp()"
            " WHERE id = ANY(%(ids)s) AND dead_at IS NULL RETURNING id",
            {"ids": list(pulses)},
        )
    ]
