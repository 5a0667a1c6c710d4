"""The servers and worker processes that are measured, and what they leave behind."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import psycopg
from django.db import connection

from project.embedded.waiting import until
from tests import factories
from tests.harness import Stack
from threads import tenancy
from workflows.models import Checkpoint, Run, Workflow
from workflows.services import spawn_run


@dataclass(frozen=True)
class Line:
    """One call of a step's code."""

    name: str
    at: int  # nanoseconds
    process: int


@dataclass
class Figure:
    """What was measured, and whether every step ran once."""

    id: str
    values: dict[str, float | str]
    expected: int = 0  # steps that were to run
    completed: int = 0
    repeated: int = 0  # finished steps that ran again: none may
    notes: list[str] = field(default_factory=list)
    late: bool = False  # a promise of its own was not kept

    def holds(self) -> bool:
        return self.completed == self.expected and not self.repeated and not self.late


class Witness:
    """The lines that the steps' code has left since the last clearing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def clear(self) -> None:
        os.truncate(self.path, 0)

    def lines(self) -> list[Line]:
        found = []
        for text in self.path.read_text().splitlines():
            name, at, process = text.split()
            found.append(Line(name, int(at), int(process)))
        return found

    def first(self, name: str) -> Line | None:
        return next((line for line in self.lines() if line.name == name), None)


class Bed:
    """One stack on fresh servers, with a house and a person in it."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.witness = Witness(stack.witness)
        self.house = tenancy.open_house("bench", name="Bench")
        self.person = factories.member(self.house, "alice", role="owner")
        self.dice = random.Random(5)  # noqa: S311  not a secret
        # Looking from another database keeps the looking out of the count.
        url = stack.database_url.replace("/threadwork?", "/postgres?")
        self.aside = psycopg.connect(url, autocommit=True)

    def workflow(self, slug: str, *steps: dict[str, Any], **more: Any) -> Workflow:
        return factories.workflow(self.house, *steps, slug=slug, **more)

    def spawn(self, flow: Workflow, payload: object = None) -> UUID:
        run: UUID = spawn_run(flow, payload=payload).run.pk
        return run

    def wait(self, condition: Callable[[], Any], seconds: float, why: str) -> Any:
        return self.stack.wait(condition, seconds, why)

    def settled(self, runs: list[UUID], *, seconds: float = 120) -> None:
        active = Run.objects.filter(pk__in=runs).active()
        self.wait(lambda: not active.exists(), seconds, "the runs have not settled")

    def completed(self, runs: list[UUID]) -> int:
        rows = Checkpoint.objects.filter(run__in=runs, run__state="completed")
        return rows.filter(state="completed").count()

    def repeats(self) -> int:
        """Return how many lines were left more than once."""
        counts = Counter(line.name for line in self.witness.lines())
        return sum(count - 1 for count in counts.values())

    def hold(self, *names: str) -> None:
        self.stack.kill(*names, number=signal.SIGSTOP)

    def let_go(self, *names: str) -> None:
        self.stack.kill(*names, number=signal.SIGCONT)

    def end(self, *names: str) -> None:
        """End roles, and wait until their sessions have gone and left their counts."""
        self.stack.kill(*names)
        gone = partial(self.sessions, 1)
        self.wait(gone, 20, "sessions of ended workers remain")

    def sessions(self, most: int) -> bool:
        row = self.aside.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = 'threadwork'"
        ).fetchone()
        return row is not None and row[0] <= most

    def count(self) -> None:
        """Have the server count what this process has committed until now."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")

    def commits(self) -> int:
        row = self.aside.execute(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = 'threadwork'"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def processor_seconds(self, *names: str) -> float:
        """Return the processor time that roles and their children have used."""
        total = 0.0
        for name in names:
            for pid in self.stack.family(self.stack.started[name].pid):
                used = psutil.Process(pid).cpu_times()
                total += used.user + used.system
        return total

    def breathe(self, least: float, most: float) -> None:
        """Let a random moment pass, so that no sample keeps step with a tick."""
        end = time.monotonic() + self.dice.uniform(least, most)
        until(lambda: time.monotonic() >= end, seconds=most)


def percentiles(samples: list[float], *which: int) -> dict[str, float]:
    """Return percentiles of seconds as milliseconds, between neighbours."""
    ordered = sorted(samples)
    return {f"p{p} ms": round(between(ordered, p / 100) * 1000, 2) for p in which}


def between(ordered: list[float], share: float) -> float:
    place = (len(ordered) - 1) * share
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
