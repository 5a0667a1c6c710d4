"""A house with a long past: real runs, multiplied in the database as rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

from threads.models import Gate
from workflows.models import Run, RunThread


def renamed(column: str) -> str:
    """Return SQL for a step's event under the copy's own run."""
    return f"regexp_replace(t.{column}, 'done:[^:]*', 'done:' || m.run)"


# What belongs to a run, each with the columns that name it or its companions.
TABLES = {
    "threads_thread": {"id": "m.thread"},
    "workflows_run": {"id": "m.run"},
    "threads_turn": {"id": "m.turn", "thread_id": "m.thread", "key": "m.run || ':0'"},
    "threads_gate": {
        "id": "m.gate",
        "thread_id": "m.thread",
        "subject": renamed("subject"),
    },
    "threads_entry": {"thread_id": "m.thread"},
    "workflows_runthread": {
        "run_id": "m.run",
        "await_key": renamed("await_key"),
        "thread_id": "m.thread",
        "await_turn_id": "CASE WHEN t.await_turn_id IS NOT NULL THEN m.turn END",
        "await_gate_id": "CASE WHEN t.await_gate_id IS NOT NULL THEN m.gate END",
    },
    "workflows_checkpoint": {"run_id": "m.run"},
    "workflows_attempt": {"run_id": "m.run"},
    "workflows_event": {
        "key": "m.run::text",
        "name": renamed("name"),
    },
}
OF_RUN = {
    "threads_thread": "t.id = %(thread)s",
    "workflows_run": "t.id = %(run)s",
    "threads_turn": "t.thread_id = %(thread)s AND t.key LIKE '%%:0'",
    "threads_gate": "t.id = %(gate)s",
    "threads_entry": "t.thread_id = %(thread)s",
    "workflows_runthread": "t.run_id = %(run)s",
    "workflows_checkpoint": "t.run_id = %(run)s",
    "workflows_attempt": "t.run_id = %(run)s",
    "workflows_event": "t.key = %(run)s::text",
}
BATCH = 100_000


def multiply(run: Run, times: int) -> None:
    """Copy a run and all that belongs to it, so many times, in batches."""
    wait = RunThread.objects.get(run=run)
    gate = Gate.objects.filter(thread=wait.thread_id).order_by("created_at").last()
    facts = {"run": run.pk, "thread": wait.thread_id, "gate": gate.pk if gate else None}
    with connection.cursor() as cursor, unchecked(cursor):
        for done in range(0, times, BATCH):
            copies = min(BATCH, times - done)
            cursor.execute(
                "CREATE TEMP TABLE copies AS SELECT uuidv7() AS run, uuidv7() AS thread,"
                " uuidv7() AS turn, uuidv7() AS gate FROM generate_series(1, %s)",
                [copies],
            )
            for table in TABLES:
                cursor.execute(copy_of(cursor, table), facts)
            cursor.execute("DROP TABLE copies")


@contextmanager
def unchecked(cursor: Any) -> Iterator[None]:
    """Leave out foreign keys, which the copies keep by their making."""
    cursor.execute("SET session_replication_role = replica")
    try:
        yield
    finally:
        cursor.execute("SET session_replication_role = origin")


def copy_of(cursor: Any, table: str) -> str:
    cursor.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
        " AND is_identity = 'NO' ORDER BY ordinal_position",
        [table],
    )
    names = [row[0] for row in cursor.fetchall()]
    values = [TABLES[table].get(name, f't."{name}"') for name in names]
    columns = ", ".join(f'"{name}"' for name in names)
    return (
        f"INSERT INTO {table} ({columns}) SELECT {', '.join(values)}"  # noqa: S608
        f" FROM copies m CROSS JOIN {table} t WHERE {OF_RUN[table]}"
    )


def settle_down() -> None:
    """Let the planner know what is there, as autovacuum would."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
