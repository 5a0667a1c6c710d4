"""What the database would do for each statement the house sends: read, never run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction

READS = ("SELECT", "WITH", "UPDATE", "INSERT", "DELETE")


@dataclass
class Sent:
    """The statements that were sent, each once, with the parameters of its first."""

    statements: dict[str, Any] = field(default_factory=dict)

    def note(self, execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if sql.lstrip().startswith(READS) and not many:
            self.statements.setdefault(sql, params)
        return execute(sql, params, many, context)


@contextmanager
def noted() -> Iterator[Sent]:
    sent = Sent()
    with connection.execute_wrapper(sent.note):
        yield sent


def walks(sent: Sent, *, tables: set[str]) -> list[str]:
    """Return the statements that would read one of these tables from end to end."""
    return [
        f"{node['Relation Name']}: {sql[:2000]}"
        for sql, params in sent.statements.items()
        for node in nodes(plan_of(sql, params))
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] in tables
    ]


def plan_of(sql: str, params: Any) -> dict[str, Any]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
        (row,) = cursor.fetchone()
        plans = json.loads(row) if isinstance(row, str) else row
        plan: dict[str, Any] = plans[0]["Plan"]
        return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)
