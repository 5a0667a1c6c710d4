"""Tickets for what stands ready and nobody has taken, never more than few."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from threads import db, liveness, points, post
from workflows import reconcile

UNCLAIMED = """
SELECT count(*) FROM (
    SELECT 1 FROM {table} t WHERE state = 'pending' AND namespace = %(namespace)s
       {pool} AND ready_at < statement_timestamp() - make_interval(secs => %(patience)s)
       AND {fits} LIMIT 100) ready
"""
FITS_TURN = (
    "(needs = '' OR needs = ANY(%(runtimes)s)) AND (root = '' OR root = ANY(%(roots)s))"
)
WORK = (
    ("workflows.advance", "workflows_run", "(needs = '' OR needs = ANY(%(kinds)s))"),
    ("threads.turn", "threads_turn", FITS_TURN),
    ("threads.job", "threads_job", "true"),
)


def top_up() -> None:
    """Post tickets for rows unclaimed for two seconds, at most two a living worker."""
    for pool, workers, kinds, runtimes, roots in pools():
        facts = {
            "namespace": settings.NAMESPACE,
            "pool": pool,
            "patience": reconcile.PATIENCE,
            "kinds": kinds,
            "runtimes": runtimes,
            "roots": roots,
        }
        for name, table, fits in WORK:
            if (name == "threads.job") == (pool == "jobs"):
                post_few(name, table, fits, facts, most=2 * workers)
    if post.messenger.silent:
        post.waiting_tickets("steps")  # asked again even where nothing is ready
    liveness.here.note_messenger(silent=post.messenger.silent)


def pools() -> list[tuple[Any, ...]]:
    """Return each pool with its living workers and what they can do."""
    return db.fetch(
        "SELECT substring(role FROM 8), count(DISTINCT p.id),"
        " array_agg(DISTINCT k) FILTER (WHERE k IS NOT NULL),"
        " array_agg(DISTINCT u) FILTER (WHERE u IS NOT NULL),"
        " array_agg(DISTINCT p.root) FROM (SELECT p.*,"
        "  COALESCE(k.value, '') AS k, COALESCE(u.value, '') AS u"
        "  FROM threads_pulse p"
        "  LEFT JOIN LATERAL jsonb_array_elements_text(p.kinds) k ON true"
        "  LEFT JOIN LATERAL jsonb_array_elements_text(p.runtimes) u ON true"
        "  WHERE p.dead_at IS NULL AND p.role LIKE 'worker-%%'"
        "  AND p.namespace = %(namespace)s) p GROUP BY role",
        {"namespace": settings.NAMESPACE},
    )


def post_few(
    name: str, table: str, fits: str, facts: dict[str, Any], *, most: int
) -> None:
    by_pool = "" if table == "threads_job" else "AND pool = %(pool)s"
    sql = UNCLAIMED.format(table=table, pool=by_pool, fits=fits)
    ((unclaimed,),) = db.fetch(sql, facts)
    if not unclaimed:
        return
    standing = post.waiting_tickets(facts["pool"])
    if standing is None:
        return
    points.reached("conductor.topping")
    arguments = [] if name == "threads.job" else [facts["pool"]]
    for _ in range(min(unclaimed, most) - standing):
        post.post_ticket(name, *arguments, "", queue=facts["pool"])
