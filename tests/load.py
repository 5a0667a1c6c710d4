"""Many runs at once over workers that keep dying: what both the tests and the soak play."""

from __future__ import annotations

import random
import time
from uuid import UUID

from django.db import connection

from tests import drive, factories
from tests.conftest import Database
from tests.harness import Stack
from threads import tenancy
from threads.models import Turn
from workflows.models import Checkpoint, Event, Run, RunThread
from workflows.services import spawn_run

TURNS = ("turns.a", "turns.b", "turns.c")


def under_fire(stack: Stack, server: Database, *, runs: int, seconds: float) -> int:
    """Run five-command workflows while turn workers are killed in turn; return kills.

    The next one is killed when the last is back. Every run completes, no finished step
    has run again, nothing is stuck, and the server saw no deadlock.
    """
    before = deadlocks()
    stack.up("conductor", "steps", *TURNS)
    home = tenancy.open_house("home", name="Home")
    steps = [factories.command(f"s{n}", stack.mark(f"s{n}")) for n in range(5)]
    flow = factories.workflow(home, *steps)
    started = [spawn_run(flow).run.pk for _ in range(runs)]
    dice, kills = random.Random(11), 0  # noqa: S311  not a secret
    end = time.monotonic() + seconds
    while time.monotonic() < end and not settled(started):
        name = dice.choice(TURNS)
        stack.pause(dice.uniform(0.2, 2.0))
        stack.kill(name)
        kills += 1
        stack.up(name)
    stack.wait(lambda: settled(started), 60 + runs)
    assert_once(stack, started)
    assert deadlocks() == before
    assert "deadlock detected" not in server.log()
    return kills


def deadlocks() -> int:
    """Return how many deadlocks the server has counted in this database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
        count: int = cursor.fetchone()[0]
        return count


def settled(runs: list[UUID]) -> bool:
    return not Run.objects.filter(pk__in=runs).active().exists()


def assert_once(stack: Stack, runs: list[UUID]) -> None:
    """Check rows and witness: each step once, but for those in flight at a kill."""
    assert set(Run.objects.filter(pk__in=runs).values_list("state", flat=True)) == {
        "completed"
    }
    assert Checkpoint.objects.filter(run__in=runs, state="completed").count() == (
        5 * len(runs)
    )
    assert Event.objects.count() == 5 * len(runs)
    assert not RunThread.objects.filter(awaiting=True).exists()
    marks = stack.marks()
    assert len(marks) == 5 * len(runs)
    begun_again = {key for key, count in marks.items() if count > 1}
    crashed = set(Turn.objects.filter(crashes__gt=0).values_list("key", flat=True))
    assert {key.partition(":")[2] for key in begun_again} <= crashed
    for run in Run.objects.filter(pk__in=runs):
        numbers = [number for number, *_ in drive.entries(run)]
        assert numbers == list(range(1, len(numbers) + 1))
