"""Whether the conductor lives, and what is ready that nobody has taken (A41)."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.models import Count, Min, Q, QuerySet
from django.db.models.functions import Now

from threads import access as thread_access
from threads.envelopes import registry
from threads.models import Job, Pulse, Turn
from workflows import why, workers
from workflows.models import Run
from workflows.moments import plain, stamp

UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))
CONDUCTOR = {
    "alive": "The conductor is up; it was last seen {span} ago.",
    "gone": (
        "The conductor is down, last seen {span} ago: what is due wakes late. "
        "Start it with `manage.py up` or `manage.py conductor`."
    ),
    "never": (
        "No conductor has run here yet: what is due wakes late. "
        "Start it with `manage.py up` or `manage.py conductor`."
    ),
}


def conductor() -> dict[str, Any]:
    """Return whether a conductor lives and when it was last seen (A41)."""
    found = workers.conductor(settings.NAMESPACE)
    if found is None:
        words = CONDUCTOR["never"]
        return {"alive": False, "seen_at": None, "seconds": None, "words": words}
    key = "alive" if found.alive else "gone"
    return {
        "alive": found.alive,
        "seen_at": stamp(found.seen_at),
        "seconds": round(found.seconds, 1),
        "words": CONDUCTOR[key].format(span=span(found.seconds)),
    }


NOTES = {
    "messenger": (
        "The messenger has not answered since {since}: nothing is lost, but what is "
        "ready begins late. `/readyz` says what it answers."
    ),
    "pooled": (
        "{count} of the processes here reach the database through a pooler that keeps "
        "no session, so that a dead one is noticed late: set DATABASE_DIRECT_URL."
    ),
    "jobs": "Jobs wait for a worker that knows their type: {types}.",
}


def notes(user: Any) -> list[str]:
    """Return what else an operator should know of, each in a sentence (C6, C8)."""
    living = Pulse.objects.filter(namespace=settings.NAMESPACE, dead_at=None)
    said = []
    if since := workers.messenger_silent_since(settings.NAMESPACE):
        said.append(NOTES["messenger"].format(since=plain(since)))
    if pooled := living.filter(locked=False).count():
        said.append(NOTES["pooled"].format(count=pooled))
    unknown = waiting_jobs(user).exclude(type__in=registry)
    counts = unknown.order_by("type").values_list("type").annotate(count=Count("pk"))
    if types := ", ".join(f"{name} ({count})" for name, count in counts[:5]):
        said.append(NOTES["jobs"].format(types=types))
    return said


def waiting_jobs(user: Any) -> QuerySet[Job]:
    """Return the jobs that have stood ready for a while and nobody has taken."""
    mine = Q(house=None) | Q(house__in=thread_access.houses(user))
    return Job.objects.filter(
        mine,
        namespace=settings.NAMESPACE,
        state=Job.State.PENDING,
        ready_at__lt=Now() - why.PATIENCE,
    )


def unclaimed(user: Any) -> dict[str, Any]:
    """Return how much is ready that nobody has taken, and for how long (A41)."""
    houses = thread_access.houses(user)
    ready = Q(state="pending", ready_at__lt=Now() - why.PATIENCE, house__in=houses)
    counts = {"n": Count("pk"), "oldest": Now() - Min("ready_at")}
    found = [
        rows.filter(ready).aggregate(**counts)
        for rows in (Run.objects.all(), Turn.objects.all())
    ]
    waited = [row["oldest"] for row in found if row["oldest"] is not None]
    oldest = max(waited, default=None)
    return {
        "runs": found[0]["n"],
        "turns": found[1]["n"],
        "count": found[0]["n"] + found[1]["n"],
        "oldest_seconds": round(oldest.total_seconds(), 1) if oldest else None,
    }


def span(seconds: float) -> str:
    """Say a span in the unit that says it best: 3.2 s, 83 s, 13 min, 5 h, 3 d."""
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f} s"
    for unit, size in UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
