"""Carry work on in this process, as workers would, until it parks or settles."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import F

from threads import services
from threads.liveness import known_runtimes
from threads.models import Entry, Gate, Pulse, Turn
from threads.runtime import turns
from threads.runtime.bots import RUNTIMES
from workflows.engine import advance
from workflows.models import Checkpoint, Run, RunThread

known_runtimes.update(RUNTIMES, {"command"})


def holder(role: str = "worker-steps") -> int:
    pulse, _ = Pulse.objects.get_or_create(
        role=role,
        name=f"{role}@test",
        defaults={
            "namespace": "default",
            "host": "test",
            "process": 1,
            "locked": True,
            "version": "test",
        },
    )
    return pulse.pk


def carry(run: Run) -> Run:
    """Advance the run and work off its turns until nothing more is ready."""
    while True:
        moved = advance.advance(pool="steps", holder=holder(), hint=run.pk)
        moved += advance.advance(pool="turns", holder=holder("worker-turns"))
        moved += turns.work_off(pool="turns", holder=holder("worker-turns"))
        if not moved:
            run.refresh_from_db()
            return run


def wake(run: Run) -> Run:
    """Let the time come that the run sleeps for."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE workflows_run SET state = 'pending', due_at = NULL,"
            " ready_at = statement_timestamp() WHERE id = %s AND state = 'sleeping'",
            [run.pk],
        )
    return carry(run)


def thread_of(run: Run) -> Any:
    return RunThread.objects.get(run=run).thread_id


def entries(run: Run) -> list[tuple[int, str, str, str]]:
    """Return number, author, kind and body of each entry, as a person reads them."""
    rows = Entry.objects.filter(thread=thread_of(run)).order_by("number")
    return [(e.number, e.author_name, e.kind, e.body) for e in rows]


def bodies(run: Run) -> list[str]:
    return [body for *_, body in entries(run)]


def steps(run: Run) -> list[tuple[str, str]]:
    rows = Checkpoint.objects.filter(run=run).order_by("position", "iteration")
    return [(row.name, row.state) for row in rows]


def open_gate(run: Run) -> Gate:
    return Gate.objects.get(thread=thread_of(run), state="open")


def late(run: Run, *, by: timedelta) -> None:
    """Move the due times of a run's rows into the past."""
    Run.objects.filter(pk=run.pk, due_at__isnull=False).update(due_at=F("due_at") - by)
    Gate.objects.filter(thread=thread_of(run), due_at__isnull=False).update(
        due_at=F("due_at") - by
    )
    Turn.objects.filter(thread=thread_of(run), due_at__isnull=False).update(
        due_at=F("due_at") - by
    )


def begun_turn(run: Run) -> Turn:
    """Let a worker take the turn the run waits for, and get no further."""
    turn = turns.claim(pool="turns", holder=holder("worker-turns"))
    assert turn is not None
    assert turn.thread_id == thread_of(run)
    return turn


def write(turn: Turn, *words: str, kind: str = "output", **more: Any) -> None:
    """Write lines of a turn's log, as its worker does while it works."""
    for text in words or ("",):
        body = {"text": text, **more}
        assert services.log_message(turn, kind=kind, body=body) is not None
