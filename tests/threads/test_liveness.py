"""Who lives is told by a session's lock, looked at twice (C8)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from project.embedded.waiting import until
from tests import hands
from threads import burial, sessions
from threads.burial import Watch
from threads.liveness import Holder
from threads.models import Pulse

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def holder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Holder]:
    """A living process with a pulse and a session of its own."""
    monkeypatch.setattr(burial, "LOOK_SECONDS", 0)
    started = Holder("worker-turns")
    started.start()
    hands.sql("UPDATE threads_pulse SET started_at = now() - interval '1 minute'")
    yield started
    started.stop()


def session(holder: Holder) -> int:
    """Return the server's process behind the session that has the holder's lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"
            " AND classid = %s AND objid::bigint = %s",
            [sessions.LOCK_CLASS, sessions.lock_half(holder.id)],
        )
        row = cursor.fetchone()
    return int(row[0]) if row else 0


def cut(holder: Holder) -> int:
    """End the holder's session from the server's side; return which it was."""
    lost = session(holder)
    assert lost
    hands.sql("SELECT pg_terminate_backend(%s)", lost)
    return lost


def twice(watch: Watch) -> list[int]:
    """Look, and look again as soon as a second look counts."""
    first = watch.look()
    watch.seen_at -= 1
    return first + watch.look()


def test_a_worker_that_lost_its_session_takes_its_place_back_and_is_not_buried(holder):
    pulse, lost = holder.id, cut(holder)

    assert until(lambda: session(holder) not in {0, lost}, seconds=5)

    assert twice(Watch()) == []
    assert holder.id == pulse
    assert Pulse.objects.get().dead_at is None


def test_one_look_buries_nobody(holder):
    watch = Watch()
    holder.stopping.set()
    cut(holder)
    assert until(lambda: not session(holder), seconds=5)

    assert watch.look() == []
    assert watch.look() == []  # too soon to count as the second

    watch.seen_at -= 1
    assert watch.look() == [holder.id]
    assert watch.look() == []


def test_a_database_or_session_that_is_young_says_nothing_of_the_dead(
    holder, monkeypatch
):
    holder.stopping.set()
    cut(holder)
    assert until(lambda: not session(holder), seconds=5)
    monkeypatch.setattr(burial, "LOOK_SECONDS", 3600)

    assert twice(Watch()) == []
    assert Pulse.objects.get().dead_at is None


def test_whoever_was_taken_for_dead_starts_anew_under_another_id(holder):
    before = holder.id
    burial.stamp([before])

    holder.beat()

    assert holder.id != before
    assert Pulse.objects.get(pk=holder.id).dead_at is None
    assert Pulse.objects.get(pk=before).dead_at is not None


def test_a_worker_that_ends_in_order_says_so_itself(holder):
    holder.stop()

    assert Pulse.objects.get().dead_at is not None
