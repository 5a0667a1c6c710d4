"""Who works here, what they hold, and whether they live."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import threading
import time
from typing import Any

import psycopg
from django.conf import settings
from django.db import models
from psycopg.types.json import Jsonb

from threads import db, hands, points, sessions
from threads.models import Job, Turn
from threads.sessions import LOCK_CLASS, lock_half

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.1  # a lost session is taken back within three of these

held_models: list[type[models.Model]] = [Turn, Job]
known_kinds: set[str] = set()  # step kinds this code can run
known_runtimes: set[str] = set()  # bot runtimes this code can run
version = "0.1.0"


POOLED = (
    "%s reaches the database through a pooler that keeps no session: if it dies, its "
    "work is taken over only after LEASE_SECONDS. Give DATABASE_DIRECT_URL an address "
    "where sessions last."
)
# The holder says that it lives and hears who answered: the backend that has its lock?
BEAT = """
UPDATE threads_pulse SET seen_at = statement_timestamp()
 WHERE id = %(id)s AND dead_at IS NULL
RETURNING pg_backend_pid(), EXISTS (
    SELECT 1 FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted
       AND l.pid = pg_backend_pid() AND l.classid = %(class)s AND l.objid = %(half)s)
"""


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
        self.session: sessions.Session | None = None
        self.backend = 0
        self.locked = False
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
                self.session = sessions.open_session()
                self.id = self.register(self.session)
                return
            self.stopping.wait(RETRY_SECONDS)

    def register(self, session: sessions.Session) -> int:
        self.locked = sessions.lasts(session)
        self.backend = sessions.backend(session)
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
            "locked": self.locked,
        }
        # The lock is taken before the row can be seen, so that nobody finds a pulse
        # of a living process unlocked.
        with session.transaction():
            row = session.execute(
                "INSERT INTO threads_pulse (namespace, role, name, host, process,"
                " version, kinds, runtimes, root, locked) VALUES (%(namespace)s,"
                " %(role)s, %(name)s, %(host)s, %(process)s, %(version)s, %(kinds)s,"
                " %(runtimes)s, %(root)s, %(locked)s) RETURNING id",
                values,
            ).fetchone()
            assert row is not None  # noqa: S101  an INSERT returns its row
            if self.locked:
                sessions.lock(session, row[0])
        if not self.locked:
            logger.warning(POOLED, self.name)
        return int(row[0])

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
                self.session = sessions.open_session()
                if self.locked:
                    sessions.lock(self.session, self.id)
                    self.backend = sessions.backend(self.session)
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
        facts = {"id": self.id, "class": LOCK_CLASS, "half": lock_half(self.id)}
        answered = session.execute(BEAT, facts).fetchone()
        if answered is None:
            logger.warning("%s was taken for dead and starts anew", self.name)
            self.id = self.register(session)
            return
        self.see(session, *answered)
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

    def see(self, session: sessions.Session, backend: int, has_lock: bool) -> None:  # noqa: FBT001  a row
        """Go without the lock where the backend that answers is not the one that has it.

        The lock would be let go of with a backend that serves others, and we be buried.
        """
        if not self.locked or (backend == self.backend and has_lock):
            return
        if backend == self.backend:
            sessions.lock(session, self.id)
            return
        self.locked = False
        session.execute(
            "UPDATE threads_pulse SET locked = false WHERE id = %s", [self.id]
        )
        logger.warning(POOLED, self.name)

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
        self.noted = (0, False)
        self.lock = threading.Lock()

    def begin(self, role: str, *, root: str = "") -> Holder:
        with self.lock:
            if self.holder is None or self.process != os.getpid():
                self.holder = Holder(role, root=root)
                points.here.role = role
                self.process = os.getpid()
                self.holder.start()
            return self.holder

    def note_messenger(self, *, silent: bool) -> None:
        """Keep on the pulse since when the messenger has been silent, if it is.

        Pages and commands read it there, so that none of them waits for the messenger.
        """
        if self.holder is None:
            return
        state = (self.holder.id if silent else 0, silent)
        if state == self.noted:
            return
        db.fetch(
            "UPDATE threads_pulse SET unheard_since ="
            " CASE WHEN %(silent)s THEN statement_timestamp() END"
            " WHERE id = %(id)s RETURNING id",
            {"silent": silent, "id": self.holder.id},
        )
        self.noted = state

    def end(self) -> None:
        holder, self.holder = self.holder, None
        if holder is not None and self.process == os.getpid():
            holder.stop()


here = Here()


# A row is nobody's when its holder was stamped dead, or its lease has passed even
# though the lock is held: a stopped process, a lost host.
ORPHANED = (
    "state = 'running' AND (held_until < statement_timestamp() OR EXISTS"
    " (SELECT 1 FROM threads_pulse p WHERE p.id = holder AND p.dead_at IS NOT NULL))"
)

# Only before it has begun, and only where nobody alive knows the one it was asked of.
FOLLOW_BOT = """
UPDATE threads_turn t SET needs = b.runtime
  FROM threads_bot b
 WHERE t.id = %(id)s AND b.id = t.bot_id AND t.state = 'pending' AND t.attempts = 0
   AND t.what = 'prompt' AND t.needs <> b.runtime
   AND (SELECT bool_or(p.runtimes @> to_jsonb(b.runtime))
               AND NOT bool_or(p.runtimes @> to_jsonb(t.needs))
          FROM threads_pulse p
         WHERE p.namespace = t.namespace AND p.dead_at IS NULL)
RETURNING t.pool
"""


def pause(seconds: float) -> None:
    """Wait where there is nothing to wait on."""
    threading.Event().wait(seconds)
