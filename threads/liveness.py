"""Who works here, what they hold, and whether they live."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Iterable
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection, models
from psycopg.types.json import Jsonb

from threads import db, hands, points
from threads.models import Job, Turn

logger = logging.getLogger(__name__)

LOCK_CLASS = 0x7477  # the first half of every advisory lock a process keeps
RETRY_SECONDS = 0.1  # a lost session is taken back within three of these
LOOK_SECONDS = 5  # a database or session younger than this says nothing of the dead

held_models: list[type[models.Model]] = [Turn, Job]
known_kinds: set[str] = set()  # step kinds this code can run
known_runtimes: set[str] = set()  # bot runtimes this code can run
version = "0.1.0"


def lock_half(pulse: int) -> int:
    return pulse % 2**31


def open_session() -> psycopg.Connection[Any]:
    """Open a connection of one's own, outside Django's, that notices a dead peer."""
    keepalive: dict[str, Any] = {
        "keepalives": 1,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "connect_timeout": 5,
    }
    if settings.DATABASE_DIRECT_URL != settings.DATABASE_URL:
        return psycopg.connect(
            settings.DATABASE_DIRECT_URL, autocommit=True, **keepalive
        )
    params = connection.get_connection_params()
    wanted = ("host", "port", "dbname", "user", "password", "options", "sslmode")
    kept = {name: params[name] for name in wanted if params.get(name)}
    return psycopg.connect(**kept, **keepalive, autocommit=True)


class Holder:
    """This process: its pulse, the session that proves it lives, and the beat.

    The id changes when the house took the process for dead; what it held under the
    old id is no longer its own, and every write it tries there matches no row.
    """

    def __init__(self, role: str, *, root: str = "") -> None:
        self.role = role
        self.root = root
        self.name = f"{role}@{socket.gethostname()}:{os.getpid()}"
        self.id = 0
        self.session: psycopg.Connection[Any] | None = None
        self.stopping = threading.Event()
        self.waker, self.wakened = os.pipe()
        self.thread = threading.Thread(
            target=self.live, name=f"pulse {role}", daemon=True
        )

    def start(self) -> None:
        self.revive()
        self.thread.start()

    def revive(self) -> None:
        """Open a session, take a pulse of our own and lock it; retry until it holds."""
        while not self.stopping.is_set():
            with contextlib.suppress(psycopg.OperationalError):
                self.session = open_session()
                self.id = self.register(self.session)
                return
            self.stopping.wait(RETRY_SECONDS)

    def register(self, session: psycopg.Connection[Any]) -> int:
        values = {
            "namespace": settings.NAMESPACE,
            "role": self.role,
            "name": f"{self.name}:{time.time_ns() // 1000}",
            "host": socket.gethostname(),
            "process": os.getpid(),
            "version": version,
            "kinds": Jsonb(sorted(known_kinds)),
            "runtimes": Jsonb(sorted(known_runtimes)),
            "root": self.root,
        }
        # The lock is taken before the row can be seen, so that nobody finds a pulse
        # of a living process unlocked.
        with session.transaction():
            row = session.execute(
                "INSERT INTO threads_pulse (namespace, role, name, host, process,"
                " version, kinds, runtimes, root, locked) VALUES (%(namespace)s,"
                " %(role)s, %(name)s, %(host)s, %(process)s, %(version)s, %(kinds)s,"
                " %(runtimes)s, %(root)s, true) RETURNING id",
                values,
            ).fetchone()
            assert row is not None  # noqa: S101  an INSERT returns its row
            self.lock(session, row[0])
        return int(row[0])

    def lock(self, session: psycopg.Connection[Any], pulse: int) -> None:
        session.execute(
            "SELECT pg_advisory_lock(%s, %s)", [LOCK_CLASS, lock_half(pulse)]
        )

    def live(self) -> None:
        next_beat = time.monotonic() + settings.BEAT_SECONDS
        while not self.stopping.is_set():
            self.listen(max(0.0, next_beat - time.monotonic()))
            if self.stopping.is_set():
                break
            try:
                if time.monotonic() >= next_beat:
                    next_beat = time.monotonic() + settings.BEAT_SECONDS
                    self.beat()
                else:
                    self.take_back()
            except psycopg.Error as error:
                logger.warning("%s lost its session: %s", self.name, error)
                self.reopen()
        self.leave()

    def listen(self, seconds: float) -> None:
        """Wait for the next beat; a session that dies makes its socket readable."""
        session = self.session
        ears: list[Any] = [self.waker]
        if session is not None and not session.closed:
            ears.append(session.fileno())
        select.select(ears, [], [], seconds)

    def take_back(self) -> None:
        """Look whether the session still stands; raise psycopg.Error where not."""
        if self.session is None or self.session.closed:
            raise psycopg.OperationalError("the session is closed")
        self.session.execute("SELECT 1")

    def reopen(self) -> None:
        """Take the lock back on a new session, before anybody looks twice."""
        while not self.stopping.is_set():
            try:
                self.session = open_session()
                self.lock(self.session, self.id)
                self.beat()
            except psycopg.Error:
                self.stopping.wait(RETRY_SECONDS)
            else:
                return

    def beat(self) -> None:
        """Say that we live and extend what we hold; start anew if taken for dead."""
        session = self.session
        if session is None or session.closed:
            raise psycopg.OperationalError("the session is closed")
        alive = session.execute(
            "UPDATE threads_pulse SET seen_at = statement_timestamp()"
            " WHERE id = %s AND dead_at IS NULL",
            [self.id],
        )
        if not alive.rowcount:
            logger.warning("%s was taken for dead and starts anew", self.name)
            self.id = self.register(session)
            return
        for model in held_models:
            table = psycopg.sql.Identifier(model._meta.db_table)  # noqa: SLF001
            session.execute(
                psycopg.sql.SQL(
                    "UPDATE {} SET held_until = statement_timestamp()"
                    " + make_interval(secs => %s)"
                    " WHERE holder = %s AND state = 'running' AND id = ANY(%s)"
                ).format(table),
                [settings.LEASE_SECONDS, self.id, list(hands.held)],
            )

    def leave(self) -> None:
        with contextlib.suppress(psycopg.Error):
            if self.session is not None:
                self.session.execute(
                    "UPDATE threads_pulse SET dead_at = statement_timestamp()"
                    " WHERE id = %s AND dead_at IS NULL",
                    [self.id],
                )
                self.session.close()

    def stop(self) -> None:
        self.stopping.set()
        os.write(self.wakened, b".")
        if self.thread.is_alive():
            self.thread.join(timeout=5)


class Here:
    """The one holder of this process, made after the fork."""

    def __init__(self) -> None:
        self.holder: Holder | None = None
        self.process = 0
        self.lock = threading.Lock()

    def begin(self, role: str, *, root: str = "") -> Holder:
        with self.lock:
            if self.holder is None or self.process != os.getpid():
                self.holder = Holder(role, root=root)
                points.here.role = role
                self.process = os.getpid()
                self.holder.start()
            return self.holder

    def end(self) -> None:
        holder, self.holder = self.holder, None
        if holder is not None and self.process == os.getpid():
            holder.stop()


here = Here()


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
        return stamp(dead)


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


# A row is nobody's when its holder was stamped dead, or its lease has passed even
# though the lock is held: a stopped process, a lost host.
ORPHANED = (
    "state = 'running' AND (held_until < statement_timestamp() OR EXISTS"
    " (SELECT 1 FROM threads_pulse p WHERE p.id = holder AND p.dead_at IS NOT NULL))"
)


def pause(seconds: float) -> None:
    """Wait where there is nothing to wait on."""
    threading.Event().wait(seconds)
