"""Who is up, who holds what, and why nobody takes it: in words, from the rows (C6)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Min, QuerySet
from django.db.models.functions import Now

from threads import db
from threads import phrases as thread_phrases
from threads.models import Pulse, Turn
from threads.sessions import LOCK_CLASS
from workflows import phrases
from workflows.models import Run
from workflows.moments import plain

LATE_BEATS = 3  # beats a process may miss before it counts as gone
NAMED = 5  # workers named in a sentence

# A conductor that was killed has let go of its lock before its beats are missed.
CONDUCTOR = """
SELECT seen_at, extract(epoch FROM statement_timestamp() - seen_at)::float,
       dead_at IS NULL
       AND seen_at > statement_timestamp() - make_interval(secs => %(late)s)
       AND (NOT locked OR EXISTS (
           SELECT 1 FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted
              AND l.classid = %(class)s AND l.objid::bigint = p.id %% 2147483648
              AND l.database = (SELECT oid FROM pg_database
                                 WHERE datname = current_database()))) AS alive
  FROM threads_pulse p WHERE role = 'conductor' AND namespace = %(namespace)s
 ORDER BY alive DESC, seen_at DESC LIMIT 1
"""


@dataclass(frozen=True)
class Conductor:
    """The newest conductor: when it was last seen, and whether it lives."""

    seen_at: datetime
    seconds: float
    alive: bool


def late() -> timedelta:
    return timedelta(seconds=LATE_BEATS * settings.BEAT_SECONDS)


def conductor(namespace: str) -> Conductor | None:
    """Return the conductor of a namespace, or None where none has run."""
    seconds = late().total_seconds()
    here = {"namespace": namespace, "late": seconds, "class": LOCK_CLASS}
    row = db.fetch_one(CONDUCTOR, here)
    return None if row is None else Conductor(*row)


def no_conductor(namespace: str) -> str:
    """Say since when no conductor has worked; nothing where one does."""
    found = conductor(namespace)
    if found is None:
        return phrases.WORKERS["no_conductor"]
    if found.alive:
        return ""
    return phrases.WORKERS["conductor"].format(since=plain(found.seen_at))


def messenger_silent_since(namespace: str) -> datetime | None:
    """Return since when a living process has not been answered by the messenger."""
    since: datetime | None = heard(namespace).aggregate(x=Min("unheard_since"))["x"]
    return since


def heard(namespace: str) -> QuerySet[Pulse]:
    """Return the processes that have spoken within a few beats."""
    return Pulse.objects.filter(
        namespace=namespace, dead_at=None, seen_at__gt=Now() - late()
    )


def pool_of(namespace: str, pool: str) -> list[Pulse]:
    """Return the living workers that take work of a pool."""
    rows = heard(namespace).filter(role__startswith="worker-")
    return [row for row in rows if pool in row.role.split("-")[1:]]


def holding(holder: int | None, held_until: datetime | None, *, now: datetime) -> str:
    """Say who holds a row, when that was last seen, and what becomes of the row."""
    pulse = Pulse.objects.filter(pk=holder or 0).first()
    if pulse is None:
        return phrases.WORKERS["somebody"]
    who = f"{pulse.role} on {pulse.host}"
    until = plain(held_until) if held_until else ""
    if pulse.dead_at is not None or (held_until is not None and held_until < now):
        key = "dead" if pulse.dead_at is not None else "overdue"
        words = phrases.WORKERS[key].format(who=who, at=plain(pulse.seen_at))
        return joined(words, no_conductor(pulse.namespace))
    if now - pulse.seen_at > late():
        silent = phrases.WORKERS["silent"]
        return silent.format(who=who, at=plain(pulse.seen_at), until=until)
    seconds = max((now - pulse.seen_at).total_seconds(), 0)
    return phrases.WORKERS["held"].format(who=who, seconds=f"{seconds:.0f}")


def joined(*words: str) -> str:
    return "; ".join(word for word in words if word)


def nobody_takes(row: Run | Turn) -> str:
    """Say why no worker has taken a row that has stood ready for a while."""
    workers = pool_of(row.namespace, row.pool)
    if not workers:
        return joined(phrases.WORKERS["no_worker"].format(pool=row.pool))
    lacking = lacks(row, workers)
    if lacking:
        return lacking
    if since := messenger_silent_since(row.namespace):
        return phrases.WORKERS["messenger"].format(since=plain(since))
    up = phrases.WORKERS["busy"].format(workers=named(workers))
    return joined(up, no_conductor(row.namespace))


def lacks(row: Run | Turn, workers: list[Pulse]) -> str:
    """Say what all of these workers lack for a row; nothing where one could take it."""
    able = [
        pulse for pulse in workers if not row.needs or row.needs in knows(row, pulse)
    ]
    if not able and isinstance(row, Turn):
        return thread_phrases.NO_RUNTIME.format(runtime=row.needs)
    if not able:
        return phrases.UNKNOWN_KIND.format(kind=row.needs)
    if row.root and isinstance(row, Turn) and row.root not in {p.root for p in able}:
        missing = thread_phrases.NO_ROOT.format(root=row.root)
        up = named(able, root=True)
        return joined(missing, phrases.WORKERS["up"].format(workers=up))
    return ""


def knows(row: Run | Turn, pulse: Pulse) -> list[Any]:
    known: list[Any] = pulse.runtimes if isinstance(row, Turn) else pulse.kinds
    return known


def named(workers: list[Pulse], *, root: bool = False) -> str:
    words = [
        f"{pulse.role} on {pulse.host}" + (f" ({pulse.root})" if root else "")
        for pulse in workers
    ]
    kept = sorted(set(words))
    more = f" and {len(kept) - NAMED} more" if len(kept) > NAMED else ""
    return ", ".join(kept[:NAMED]) + more
