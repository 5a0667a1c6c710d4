"""Random deaths under load: what the soak plays, and what must be true of it after."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import (
    InterfaceError,
    OperationalError,
    close_old_connections,
    connection,
)

from tests import drive, factories
from tests.acceptance.test_workers import forget, tickets
from tests.conftest import Database
from tests.harness import Stack
from tests.load import deadlocks
from threads import gates, tenancy
from threads.exceptions import ThreadError
from threads.models import Entry, Gate, Turn
from workflows.exceptions import WorkflowError
from workflows.models import Checkpoint, Run, RunThread, Workflow
from workflows.services import cancel_run, look, retry_run, spawn_run

ROLES = ("conductor", "steps.a", "steps.b", "turns.a", "turns.b", "jobs")
ABREAST = 12  # runs under way at once
LEASE = 6.0
CALLS = "witness=quick:tests.witness.timed,slow=tests.witness.timed"


def mark(stack: Stack, name: str) -> str:
    """Return a command that says that it ran, with which key, and when."""
    return f'echo "{name} $THREADWORK_KEY $(date +%s.%N)" >> {stack.witness}; echo ok'


def timed(name: str, function: str) -> dict[str, Any]:
    line = f"{name} {{{{run.id}}}}"
    return factories.call(name, function, args={"line": line})


def mixed(stack: Stack) -> list[dict[str, Any]]:
    return [
        factories.command("first", mark(stack, "first")),
        factories.sleep("rest", 0.3),
        timed("count", "witness"),
        factories.prompt("look", "Look around.\nnote.py:3: AssertionError"),
        factories.gate("ship", "Ship it?"),
        timed("long", "slow"),
        factories.command("slow", f"sleep 0.5; {mark(stack, 'slow')}"),
        timed("last", "witness"),
    ]


@dataclass
class Storm:
    """A stack under load, the dice, and what has been done to it."""

    stack: Stack
    server: Database
    seconds: float
    flow: Workflow
    fragile: Workflow
    person: Any
    dice: random.Random
    done: Counter[str] = field(default_factory=Counter)
    stopped: dict[str, float] = field(default_factory=dict)
    leaving: dict[str, float] = field(default_factory=dict)
    cancelled: set[UUID] = field(default_factory=set)
    retried: set[UUID] = field(default_factory=set)

    def blow(self) -> None:
        """Do mischief until the time is up, then let everything come to rest."""
        end = time.monotonic() + self.seconds
        following = time.monotonic() + 3
        while (now := time.monotonic()) < end:
            self.safely(self.load)
            self.safely(self.people)
            self.safely(self.mind)
            if now >= following:
                self.safely(self.mischief)
                following = now + self.dice.uniform(0.3, 2.5)
            self.stack.pause(0.1)
        for name in list(self.stopped):
            self.wake(name)
        self.stack.wait(self.at_rest, 180, "a run has not ended")

    def safely(self, act: Callable[[], object]) -> None:
        """Act; a database that is just restarting is asked again."""
        try:
            act()
        except (OperationalError, InterfaceError):
            close_old_connections()
            connection.close()

    def load(self) -> None:
        missing = ABREAST - Run.objects.active().count()
        for _ in range(missing):
            flow = self.fragile if self.dice.random() < 0.1 else self.flow
            spawn_run(flow)

    def people(self) -> None:
        """Answer what is asked, cancel a few, retry what failed."""
        for gate in Gate.objects.filter(state="open"):
            if self.dice.random() < 0.5:
                self.try_to(partial(self.answer, gate.pk))
        if self.dice.random() < 0.02:
            for run in self.dice.sample(list(Run.objects.active()), 1):
                self.cancelled.add(run.pk)
                self.done["cancel"] += 1
                self.try_to(partial(cancel_run, run.pk, reason="enough"))
        failed = Run.objects.filter(state="failed", retry_of=None)
        for run in failed.exclude(pk__in=self.retried):
            self.retried.add(run.pk)
            self.done["retry"] += 1
            self.try_to(partial(retry_run, run))

    def answer(self, gate: UUID) -> None:
        gates.decide(gate, person=self.person, answer="approve", door="page")

    def try_to(self, act: Callable[[], object]) -> None:
        """Act, unless somebody or something was first."""
        try:
            act()
        except (ThreadError, WorkflowError):
            self.done["refused"] += 1

    def mind(self) -> None:
        """Start what has died; wake what has stood still for longer than its lease."""
        now = time.monotonic()
        for name, until in list(self.stopped.items()):
            if now >= until:
                self.wake(name)
        for name, until in list(self.leaving.items()):
            if now >= until:
                self.stack.kill(name)
        for name in ROLES:
            if self.stack.started[name].poll() is not None:
                self.leaving.pop(name, None)
                self.stack.start(name)

    def wake(self, name: str) -> None:
        del self.stopped[name]
        self.stack.kill(name, number=signal.SIGCONT)

    def mischief(self) -> None:
        free = [name for name in ROLES if name not in {*self.stopped, *self.leaving}]
        if not free:
            return
        name = self.dice.choice(free)
        kinds = ["kill", "term", "stop", "all", "forget", "restart"]
        (kind,) = self.dice.choices(kinds, weights=[60, 15, 12, 4, 7, 2])
        self.done[kind] += 1
        match kind:
            case "kill":
                self.stack.kill(name)
            case "term":
                self.stack.kill(name, number=signal.SIGTERM)
                self.leaving[name] = time.monotonic() + 15
            case "stop":
                self.stack.kill(name, number=signal.SIGSTOP)
                wait = self.dice.uniform(0.5, 2 * LEASE)
                self.stopped[name] = time.monotonic() + wait
            case "all":
                self.stack.kill(*free)
            case "forget":
                forget(self.stack)
            case _:
                connection.close()
                self.server.restart()

    def at_rest(self) -> bool:
        self.people()
        self.mind()
        return not Run.objects.active().exists()


def blow(stack: Stack, server: Database, *, seconds: float, seed: int) -> Storm:
    stack.env |= {"LEASE_SECONDS": str(LEASE), "BEAT_SECONDS": "1", "CALLS": CALLS}
    settings.CALLS = dict(word.split("=") for word in CALLS.split(","))
    house = tenancy.open_house("home", name="Home")
    alice = factories.member(house, "alice", role="owner")
    broken = factories.command("bad", f"{mark(stack, 'bad')}; exit 3")
    flow = factories.workflow(house, *mixed(stack), slug="mixed", max_attempts=50)
    fragile = factories.workflow(
        house, timed("count", "witness"), broken, slug="fragile", max_attempts=50
    )
    stack.up(*ROLES)
    dice = random.Random(seed)  # noqa: S311  not a secret
    storm = Storm(stack, server, seconds, flow, fragile, alice, dice)
    before = deadlocks()
    storm.blow()
    check(storm)
    assert deadlocks() <= before
    assert "deadlock detected" not in server.log()
    return storm


def check(storm: Storm) -> None:
    """Check every row and every witness once all has come to rest."""
    for run in Run.objects.select_related("workflow"):
        expected = {"failed" if run.workflow == storm.fragile else "completed"}
        if run.pk in storm.cancelled:
            expected |= {"cancelled"}
        assert run.state in expected, (run.pk, run.state, run.failure)
        check_thread(run)
        assert not look(run.pk)
    assert not RunThread.objects.filter(awaiting=True).exists()
    assert not Gate.objects.filter(state="open").exists()
    assert not Turn.objects.active().exists()
    storm.done["steps begun again"] = check_witness(storm)
    storm.stack.wait(lambda: tickets(storm.stack) == 0, 30, "tickets are left")


def check_thread(run: Run) -> None:
    """Check that numbers have no gap and nothing is told twice."""
    numbers = [number for number, *_ in drive.entries(run)]
    assert numbers == list(range(1, len(numbers) + 1))
    asked = Entry.objects.filter(thread=drive.thread_of(run), kind="instruction")
    steps = Counter(asked.values_list("data__step", flat=True))
    assert set(steps.values()) <= {1}, steps
    bodies = drive.bodies(run)
    started = bodies.count("dispatch.started")
    ended = [b for b in bodies if b.partition(":")[0] in ENDED]
    assert started == len(ended), bodies


ENDED = {"dispatch.completed", "dispatch.failed", "dispatch.cancelled"}


def check_witness(storm: Storm) -> int:
    """Return how many executions were repeated; each must have been cut off.

    No execution begins after its step has been recorded, and a command begins once for
    each claim of its turn at most. A call has no record of its own: what a crash or a
    restart of the database cut off is made again.
    """
    begun: dict[tuple[str, str], list[float]] = {}
    for line in storm.stack.witness.read_text().splitlines():
        name, key, moment = line.split()
        begun.setdefault((name, key), []).append(float(moment))
    claims = dict(Turn.objects.values_list("key", "attempts"))
    crashes: Counter[str] = Counter()
    finished: dict[tuple[str, str], float] = {}
    for step in Checkpoint.objects.exclude(finished_at=None):
        key = str(step.run_id)
        crashes[step.name, key] = step.crashes  # type: ignore[index]
        if step.kind == "run_command":
            key = f"{key}:{step.position}"
        assert step.finished_at is not None
        finished[step.name, key] = step.finished_at.timestamp()
    unexplained = 0
    for (name, key), moments in begun.items():
        assert max(moments) <= finished[name, key], (name, key, "ran after its end")
        if key in claims:
            assert len(moments) <= claims[key], (name, key, moments)
        elif len(moments) > 1:
            unexplained += 1
    storm.done["calls made again"] = unexplained
    return sum(len(moments) - 1 for moments in begun.values())


def figures(storm: Storm) -> str:
    runs = Counter(Run.objects.values_list("state", flat=True))
    crashed = sum(Turn.objects.values_list("crashes", flat=True))
    attempts = sum(n - 1 for n in Run.objects.values_list("attempts", flat=True) if n)
    told = {**storm.done, "runs": runs.total(), **runs}
    told |= {"turns reclaimed": crashed, "runs reclaimed": attempts}
    return ", ".join(f"{name} {count}" for name, count in told.items())
