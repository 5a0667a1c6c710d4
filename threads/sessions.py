"""Connections outside Django's, and the lock on them that says who lives."""

from __future__ import annotations

from typing import Any

import psycopg
from django.conf import settings
from django.db import connection

LOCK_CLASS = 0x7477  # the first half of every advisory lock a process keeps

PROBES = 3  # how often a session is tried where something stands in between

Session = psycopg.Connection[Any]


def lock_half(pulse: int) -> int:
    return pulse % 2**31


def open_session() -> Session:
    """Open a connection of one's own that notices a dead peer."""
    common: dict[str, Any] = {
        "keepalives": 1,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "connect_timeout": 5,
        "prepare_threshold": None,  # the next statement may meet another backend
        "autocommit": True,
    }
    if settings.DATABASE_DIRECT_URL != settings.DATABASE_URL:
        return psycopg.connect(settings.DATABASE_DIRECT_URL, **common)
    params = connection.get_connection_params()
    wanted = ("host", "port", "dbname", "user", "password", "options", "sslmode")
    kept = {name: params[name] for name in wanted if params.get(name)}
    return psycopg.connect(**kept, **common)


def backend(session: Session) -> int:
    """Return the server's process that answers on the session now."""
    row = session.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None  # noqa: S101  a SELECT without FROM returns a row
    return int(row[0])


def lasts(session: Session) -> bool:
    """Return whether one backend serves the session for as long as it lives.

    A pooler makes up the number of the backend at the login, and one that pools by the
    transaction serves us by several, or two sessions that are open by the same one.
    Nothing is held meanwhile, so that a small pool is never waited for by its own users.
    """
    mine = backend(session)
    if session.info.backend_pid == mine:
        return True
    with open_session() as other:
        # Asked twice running: two that took turns would meet each its own for ever.
        asked = (other, session, session) * PROBES
        return all((backend(one) == mine) == (one is session) for one in asked)


def lock(session: Session, pulse: int) -> None:
    session.execute("SELECT pg_advisory_lock(%s, %s)", [LOCK_CLASS, lock_half(pulse)])
