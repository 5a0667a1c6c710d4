"""Claim a job, open its envelope, find its handler in the table, settle."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db.models.functions import Now

from threads import db, envelopes, hands, points, post
from threads.exceptions import BadEnvelope
from threads.liveness import ORPHANED
from threads.models import Job
from threads.runtime.insist import insist

logger = logging.getLogger(__name__)

FIRST_DELAY = 30.0  # seconds, doubling
LONGEST_DELAY = 900.0
MOST_ATTEMPTS = 10

Handler = Callable[[Any], None]
handlers: dict[str, Handler] = {}  # type → handler; each app's tasks.py fills it

CLAIM = """
UPDATE threads_job j
   SET state = 'running', holder = %(holder)s, attempts = attempts + 1,
       held_until = statement_timestamp() + make_interval(secs => %(lease)s)
 WHERE j.state = 'pending' AND j.id = (
       SELECT id FROM threads_job
        WHERE state = 'pending' AND namespace = %(namespace)s
          AND ready_at <= statement_timestamp() AND type = ANY(%(types)s)
        ORDER BY ready_at LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING j.id
"""


def work_off(*, holder: int) -> int:
    """Work jobs off until none is ready; a type nobody here knows stays visible."""
    worked = 0
    while job := insist(lambda: claim(holder)):
        points.reached("job.claimed")
        with hands.hold(job.pk):
            work(job)
        worked += 1
    return worked


def claim(holder: int) -> Job | None:
    row = db.fetch_one(
        CLAIM,
        {
            "namespace": settings.NAMESPACE,
            "types": sorted(handlers),
            "holder": holder,
            "lease": settings.LEASE_SECONDS,
        },
    )
    return None if row is None else Job.objects.get(pk=row[0])


def work(job: Job) -> None:
    try:
        envelope = envelopes.opened(
            {
                "id": job.pk,
                "type": job.type,
                "payload": job.payload,
                "enqueued_at": job.enqueued_at,
            }
        )
    except BadEnvelope as error:
        logger.warning("Job %s cannot be read: %s", job.pk, error)
        settle(job, Job.State.DEAD, error=str(error))
        return
    try:
        handlers[job.type](envelope.payload)
    except Exception as error:
        logger.exception("Job %s (%s) failed", job.pk, job.type)
        retry(job, f"{type(error).__name__}: {error}")
        return
    points.reached("job.handled")
    settle(job, Job.State.SUCCEEDED)
    points.reached("job.settled")


def settle(job: Job, state: str, *, error: str = "") -> bool:
    held = Job.objects.filter(
        pk=job.pk, state=Job.State.RUNNING, holder=job.holder, attempts=job.attempts
    )
    changed = insist(
        lambda: held.update(
            state=state, holder=None, held_until=None, ended_at=Now(), last_error=error
        )
    )
    return bool(changed)


def retry_delay(attempts: int) -> float:
    """Return the seconds before the next attempt: 30, doubling to 15 minutes (B7)."""
    doublings = min(attempts - 1, 10)
    return float(min(FIRST_DELAY * 2**doublings, LONGEST_DELAY))


def retry(job: Job, error: str) -> None:
    if job.attempts >= MOST_ATTEMPTS:
        settle(job, Job.State.DEAD, error=error)
        return
    insist(
        lambda: db.fetch(
            "UPDATE threads_job SET state = 'pending', holder = NULL,"
            " held_until = NULL, last_error = %(error)s, ready_at ="
            " statement_timestamp() + make_interval(secs => %(seconds)s)"
            " WHERE id = %(id)s AND state = 'running' AND holder = %(holder)s"
            " AND attempts = %(attempts)s RETURNING id",
            {
                "id": job.pk,
                "holder": job.holder,
                "attempts": job.attempts,
                "error": error,
                "seconds": retry_delay(job.attempts),
            },
        )
    )
    points.reached("job.retried")


def reclaim_orphans() -> int:
    """Take jobs from dead workers; one that kills its worker each time ends as dead."""
    rows = db.fetch(
        "UPDATE threads_job SET holder = NULL, held_until = NULL,"  # noqa: S608
        " state = CASE WHEN attempts >= %(most)s THEN 'dead' ELSE 'pending' END,"
        " ended_at = CASE WHEN attempts >= %(most)s THEN statement_timestamp() END,"
        " last_error = 'the worker died', ready_at = statement_timestamp()"
        f" WHERE namespace = %(namespace)s AND {ORPHANED} RETURNING id",
        {"namespace": settings.NAMESPACE, "most": MOST_ATTEMPTS},
    )
    for (job,) in rows:
        points.reached("job.reclaimed")
        post.post_ticket("threads.job", job, queue="jobs")
    return len(rows)
