"""What a worker does with a turn, by hand, and many callers at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import connection

from tests import drive
from threads import services
from threads.models import Turn
from threads.runtime import turns
from threads.services import Ending
from workflows.engine import advance, claims
from workflows.journal import Held
from workflows.models import Run, RunThread

T = TypeVar("T")


def go_on(run: Run) -> Run:
    """Advance the run until it parks or settles, and leave its turns alone."""
    while advance.advance(pool="steps", holder=drive.holder(), hint=run.pk):
        pass
    run.refresh_from_db()
    return run


def go_on_there(run: Run, *, once: bool = False) -> Run:
    """Advance the run as a worker does that may wait."""
    holder = drive.holder("worker-turns")
    while advance.advance(pool="turns", holder=holder, hint=run.pk) and not once:
        pass
    run.refresh_from_db()
    return run


def hold(run: Run, *, role: str = "worker-steps", pool: str = "steps") -> Held:
    """Claim the run as a worker would and do nothing with it."""
    held = claims.claim(pool=pool, holder=drive.holder(role), hint=run.pk)
    assert held is not None
    assert held.id == run.pk
    return held


def wait_of(run: Run) -> RunThread:
    return RunThread.objects.get(run=run)


def take(run: Run, *, role: str = "worker-turns") -> Turn:
    """Claim the turn that the run waits for."""
    wanted = wait_of(run).await_turn_id
    turn = turns.claim(pool="turns", holder=drive.holder(role), hint=wanted)
    assert turn is not None
    assert turn.pk == wanted
    return turn


def end(turn: Turn, *, output: str = "", status: int = 0) -> bool:
    """Settle a claimed turn as a command's end would."""
    state = "failed" if status else "succeeded"
    reason = f"exited with status {status}" if status else ""
    result = {"output": output, "exit_code": status, "truncated": 0}
    ending = Ending(state, reason, output, result)
    return services.settle_turn(turn, ending, guard=services.held_by(turn))


def answer(run: Run, *, output: str = "", status: int = 0) -> Run:
    """Let the bot end the run's turn, and carry the run on."""
    assert end(take(run), output=output, status=status)
    return go_on(run)


def sql(statement: str, *params: Any) -> int:
    """Run a statement past the services; return how many rows it touched."""
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return int(cursor.rowcount)


def waiting_for_locks() -> int:
    """Count the sessions of the test's database that wait for a lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(DISTINCT l.pid) FROM pg_locks l WHERE NOT l.granted"
            " AND EXISTS (SELECT 1 FROM pg_locks o JOIN pg_database d"
            " ON d.oid = o.database AND d.datname = current_database()"
            " WHERE o.pid = l.pid)"
        )
        return int(cursor.fetchone()[0])


def die(role: str = "worker-steps") -> None:
    """Stamp the worker of a role as dead."""
    sql(
        "UPDATE threads_pulse SET dead_at = statement_timestamp() WHERE id = %s",
        drive.holder(role),
    )


def together(count: int, act: Callable[[int], T]) -> list[T]:
    """Let that many callers, each on a connection of its own, act at one moment."""
    start = threading.Barrier(count)
    results: dict[int, T] = {}
    faults: list[BaseException] = []

    def caller(number: int) -> None:
        try:
            connection.ensure_connection()
            start.wait(20)
            results[number] = act(number)
        except BaseException as fault:  # noqa: BLE001  told by the test's own thread
            faults.append(fault)
        finally:
            connection.close()

    callers = [threading.Thread(target=caller, args=(n,)) for n in range(count)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(60)
    if faults:
        raise faults[0]
    return [results[number] for number in range(count)]


class Calls:
    """The function behind a `call` step: what it was given, what it does next."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.faults = 0
        self.value: Any = None

    def __call__(self, **args: Any) -> Any:
        self.seen.append(args)
        if self.faults:
            self.faults -= 1
            raise RuntimeError("the line was busy")
        return args.get("value") if self.value is None else self.value


called = Calls()


def failure(run: Run) -> tuple[str, str]:
    """Return the step that failed the run, and why."""
    assert run.failure is not None
    return run.failure["step"], run.failure["reason"]
