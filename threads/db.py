"""Raw statements of claims and journals, on Django's own connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Model
from django.db.models.expressions import DatabaseDefault

Row = tuple[Any, ...]
# Stands where a claim has no hint: for a null the server would plan it anew each time.
NO_HINT = UUID(int=0)


def fetch(sql: str, params: Mapping[str, Any]) -> list[Row]:
    """Run a statement that returns rows, in the transaction that is open, if any."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def fetch_one(sql: str, params: Mapping[str, Any]) -> Row | None:
    rows = fetch(sql, params)
    return rows[0] if rows else None


def leave_to_database(row: Model, *fields: str) -> None:
    """Read these fields of a new row when they are asked for: the database sets them."""
    for field in fields:
        if isinstance(row.__dict__.get(field), DatabaseDefault):
            del row.__dict__[field]


def fair_pick(table: str, *, fits: str) -> str:
    """Return SQL for the id of the row to claim next, or null.

    The ticket's hint is taken while its house holds at most its share of what is
    claimed, plus one; else the oldest ready row of the next house above the claimer's
    last one, wrapping. Parameters: namespace, pool, hint, after, and those of `fits`.
    """
    ready = (
        "t.state = 'pending' AND t.namespace = %(namespace)s AND t.pool = %(pool)s"
        f" AND t.ready_at <= statement_timestamp() AND {fits}"
    )
    # One walk along the partial index on (namespace, pool, house, ready_at): rows that
    # another claimer has locked are stepped over, even into the next house.
    oldest = (
        f"(SELECT t.id FROM {table} t WHERE {ready} AND t.house_id {{}} %(after)s"  # noqa: S608
        " ORDER BY t.house_id, t.ready_at LIMIT 1 FOR UPDATE SKIP LOCKED)"
    )
    held = (
        f"(SELECT count(*) FROM {table} r WHERE r.state = 'running'"  # noqa: S608
        " AND r.namespace = %(namespace)s{})"
    )
    # A loose scan: one index probe a house, however long its backlog.
    houses = (
        f"(WITH RECURSIVE h(id) AS ((SELECT t.house_id FROM {table} t WHERE {ready}"  # noqa: S608
        " ORDER BY t.house_id LIMIT 1) UNION ALL SELECT (SELECT t.house_id FROM"
        f" {table} t WHERE {ready} AND t.house_id > h.id ORDER BY t.house_id LIMIT 1)"
        " FROM h WHERE h.id IS NOT NULL) SELECT greatest(count(id), 1) FROM h)"
    )
    hinted = (
        f"(SELECT t.id FROM {table} t WHERE t.id = %(hint)s AND {ready} AND"  # noqa: S608
        f" {held.format(' AND r.house_id = t.house_id')} <="
        f" ceil({held.format('')}::numeric / {houses}) + 1 FOR UPDATE SKIP LOCKED)"
    )
    return f"COALESCE({hinted}, {oldest.format('>')}, {oldest.format('<=')})"
