"""Behind a pooler that keeps no session the lock says nothing, and that is said (C8)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests import hands
from tests.harness import database_url
from tests.pooler import Pooler
from threads import burial, sessions
from threads.burial import Watch
from threads.liveness import Holder
from threads.models import Pulse

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=["longest free", "just freed"])
def pooler(request: Any, settings: Any, monkeypatch: Any) -> Iterator[Pooler]:
    monkeypatch.setattr(burial, "LOOK_SECONDS", 0)
    made = Pooler(database_url(), newest=request.param == "just freed")
    settings.DATABASE_DIRECT_URL = made.url
    yield made
    made.close()


def begun() -> Holder:
    holder = Holder("worker-turns")
    holder.start()
    hands.sql("UPDATE threads_pulse SET started_at = now() - interval '1 minute'")
    return holder


def twice(watch: Watch) -> list[int]:
    first = watch.look()
    watch.seen_at -= 1
    return first + watch.look()


def test_a_worker_behind_a_pooler_says_so_and_is_not_buried(pooler, caplog):
    holder = begun()
    try:
        assert not Pulse.objects.get().locked
        assert "Give DATABASE_DIRECT_URL an address where sessions last" in caplog.text
        assert twice(Watch()) == []
        holder.beat()
        assert Pulse.objects.get().dead_at is None
        assert twice(Watch()) == []
    finally:
        holder.stop()
    assert Pulse.objects.get().dead_at is not None


def test_one_that_dies_there_is_buried_when_its_lease_has_passed(pooler, settings):
    holder = begun()
    holder.stopping.set()  # nothing more is heard of it
    ago = "UPDATE threads_pulse SET seen_at = now() - make_interval(secs => %s)"

    hands.sql(ago, settings.LEASE_SECONDS - 5)
    assert twice(Watch()) == []

    hands.sql(ago, settings.LEASE_SECONDS + 1)
    assert twice(Watch()) == [holder.id]
    holder.stop()


def test_a_pooler_that_shows_only_later_is_seen_at_a_beat(pooler, monkeypatch, caplog):
    monkeypatch.setattr(sessions, "lasts", lambda session: True)
    holder = begun()
    try:
        assert Pulse.objects.get().locked
        # Others come and go, so that another backend answers us now.
        with sessions.open_session() as other, other.transaction():
            other.execute("SELECT 1")
            holder.backend = sessions.backend(other)
            holder.beat()

        assert not Pulse.objects.get().locked
        assert "keeps no session" in caplog.text
        assert twice(Watch()) == []
    finally:
        holder.stop()


def test_a_session_that_lasts_keeps_its_lock(caplog, monkeypatch):
    monkeypatch.setattr(burial, "LOOK_SECONDS", 0)
    caplog.set_level(logging.WARNING)
    holder = begun()
    try:
        holder.beat()
        assert Pulse.objects.get().locked
        assert caplog.text == ""

        # Somebody on our session let go of every lock, as some poolers do.
        assert holder.session is not None
        holder.session.execute("SELECT pg_advisory_unlock_all()")
        holder.beat()
        assert twice(Watch()) == []
        assert Pulse.objects.get().locked
    finally:
        holder.stop()
