"""The crash kit's harness: every role is a forked process, ended by SIGKILL at a place.

A role lives for one errand here, so that a death costs milliseconds. What is killed is
as real as in a stack of workers, and so are its rows; only broker and pulses are played.
"""

from __future__ import annotations

import os
import re
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Q
from django.db.models.functions import Now

from tests import drive, factories
from threads import burial, points
from threads.jobs import mail
from threads.models import (
    Entry,
    Gate,
    House,
    Job,
    Pulse,
    Thread,
    Turn,
    TurnMessage,
)
from threads.runtime import jobs, turns
from workflows import sweep
from workflows.engine import advance
from workflows.engine.conductor import Conductor
from workflows.models import (
    Attempt,
    Checkpoint,
    Event,
    Run,
    RunKey,
    RunThread,
    Workflow,
)
from workflows.services import Start, look, spawn_run

UUIDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIMES = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S*")
# Where a call has returned and is not recorded: it may be made again, with its key.
CALLED = {
    "advance.ended",
    "call.ended",
    "rest.written",
    "again.written",
    "thread.written",
}
# Of a conductor beside real workers: tests/acceptance/test_kills.py.
AMONG_REAL_WORKERS = {"conductor.stamped", "conductor.topping"}
PATIENCE = 20.0  # seconds for one case; each takes a fraction of one


@dataclass
class World:
    """A house, its people, and a place for witnesses and orders."""

    base: Path
    house: House
    alice: Any
    number: int = 0
    stopped: list[int] = field(default_factory=list)

    @property
    def witness(self) -> Path:
        return self.base / "witness"

    @property
    def orders(self) -> Path:
        return self.base / "orders"

    def mark(self, name: str) -> str:
        return f'echo "{name}:$THREADWORK_KEY" >> {self.witness}; echo {name}'

    def process(self, role: str, errand: Callable[[int], object]) -> bool:
        """Run an errand in a process of its own; False where that was killed."""
        self.number += 1
        pulse = Pulse.objects.create(
            role=role,
            name=f"{role}:{self.number}",
            namespace="default",
            host="test",
            process=1,
            version="test",
        )
        pid = os.fork()
        if pid == 0:
            self.child(role, partial(errand, pulse.pk))
        _, status = os.waitpid(pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            self.stopped.append(pid)  # taken for dead by the others
            burial.stamp([pulse.pk])
            return False
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL
            burial.stamp([pulse.pk])
            return False
        fault = self.base / "fault"
        assert os.WEXITSTATUS(status) == 0, f"{role}: {fault.read_text()}"
        return True

    def wake(self) -> None:
        """Let those go on that were stopped, to their end."""
        for pid in self.stopped:
            os.kill(pid, signal.SIGCONT)
            _, status = os.waitpid(pid, 0)
            fault = self.base / "fault"
            assert os.waitstatus_to_exitcode(status) == 0, fault.read_text()
        self.stopped.clear()

    def child(self, role: str, errand: Callable[[], object]) -> None:
        try:
            connection.connection = None  # the parent's, never to be spoken on
            points.ORDERS, points.here.role = str(self.orders), role
            errand()
            os._exit(0)
        except BaseException:  # noqa: BLE001  told by the parent
            (self.base / "fault").write_text(traceback.format_exc())
            os._exit(1)


Steps = Callable[["World", str], list[dict[str, Any]]]


@dataclass(frozen=True)
class Scenario:
    """A recipe, what people do with its runs, and how many runs come of it."""

    name: str
    steps: Steps
    person: Callable[[Case], object] = lambda case: case.start()
    more: dict[str, Any] = field(default_factory=dict)
    runs: int = 1
    prelude: tuple[str, ...] = ()  # deaths before the one that is tried
    other: Steps | None = None  # of a second workflow, that the first may start
    setup: Callable[[Case], object] = lambda case: None
    slice_seconds: float = 60.0  # never spent, however slow the machine
    asks: bool = False  # who dies at work is asked about, once more each time
    mend: Callable[[], object] = lambda: Conductor().turn_round()


class Case:
    """One play of a scenario, from its start until nothing is left to do."""

    def __init__(self, world: World, scenario: Scenario) -> None:
        world.number += 1
        self.world, self.scenario = world, scenario
        self.slug = f"{scenario.name}-{world.number}"
        self.flows = []
        if scenario.other is not None:
            other = scenario.other(world, self.slug)
            self.flows += [self.save(f"{self.slug}-other", other)]
        steps = scenario.steps(world, self.slug)
        self.flows += [self.save(self.slug, steps, **scenario.more)]
        self.flow = self.flows[-1]
        jobs.handlers["mail.v1"] = mail.handle
        settings.SLICE_SECONDS = scenario.slice_seconds
        scenario.setup(self)

    def save(self, slug: str, steps: list[dict[str, Any]], **more: Any) -> Workflow:
        name = "A workflow"
        return factories.workflow(
            self.world.house, *steps, slug=slug, name=name, **more
        )

    def runs(self) -> list[Run]:
        rows = Run.objects.filter(workflow__in=self.flows)
        return list(rows.order_by("created_at"))

    def start(self, count: int = 1) -> None:
        """Start so many runs, as somebody who asks again until told."""
        for number in range(count):
            key = f"{self.slug}:{number}"
            if not RunKey.objects.filter(key=key).exists():
                by = Start(by=self.world.alice)
                spawn_run(self.flow, key=key, start=by)

    def play(self, *orders: str) -> list[str]:
        """Play it to its end under orders; return those that were carried out."""
        world = self.world
        self.forget()
        if orders:
            world.orders.write_text("\n".join(orders))
        end = time.monotonic() + PATIENCE
        while not self.over():
            assert time.monotonic() < end, f"{self.slug}, {orders}: {self.story()}"
            self.round()
        world.orders.unlink(missing_ok=True)
        done = world.base / "orders.done"
        return done.read_text().splitlines() if done.exists() else []

    def forget(self) -> None:
        """Begin with no orders, and none carried out."""
        for name in ("orders", "orders.count", "orders.done", "orders.list"):
            (self.world.base / name).unlink(missing_ok=True)

    def round(self) -> None:
        """Let everyone who has something to do come once."""
        world = self.world
        world.process("web", lambda _: self.scenario.person(self))
        for pool in ("steps", "turns"):
            if Run.objects.filter(pool=pool, state="pending", ready_at__lte=Now()):
                world.process(f"worker-{pool}", partial(self.carry, pool))
        if Turn.objects.filter(state="pending", ready_at__lte=Now()).exists():
            world.process(
                "worker-turns", lambda me: turns.work_off(pool="turns", holder=me)
            )
        if Job.objects.filter(state="pending", ready_at__lte=Now()).exists():
            world.process("worker-jobs", lambda me: jobs.work_off(holder=me))
        if self.due():
            world.process("conductor", lambda _: self.scenario.mend())

    def carry(self, pool: str, me: int) -> None:
        advance.advance(pool=pool, holder=me)

    def due(self) -> bool:
        """Whether a conductor would find anything: a time that came, or the dead's."""
        gone = Q(holder__in=Pulse.objects.exclude(dead_at=None).values("pk"))
        late = Q(due_at__lte=Now())
        return (
            Run.objects.active()
            .filter(late | gone | Q(deadline_at__lte=Now()))
            .exists()
            or Turn.objects.active().filter(late | gone).exists()
            or Gate.objects.filter(late, state="open").exists()
            or Job.objects.filter(gone).exists()
            or Workflow.objects.filter(next_slot_at__lte=Now()).exists()
            or Run.objects.filter(
                state="waiting", cancel_asked_at__isnull=False
            ).exists()
        )

    def over(self) -> bool:
        runs = self.runs()
        return (
            len(runs) >= self.scenario.runs
            and all(run.state in Run.SETTLED for run in runs)
            and not Job.objects.filter(state__in=["pending", "running"]).exists()
        )

    def story(self) -> list[Any]:
        """Return all that people see of it, without what differs from play to play."""
        return [
            (run.state, self.plain(run.failure), self.entries(run), drive.steps(run))
            for run in self.runs()
        ]

    def entries(self, run: Run) -> list[Any]:
        return [
            (number, author, kind, self.plain(body))
            for number, author, kind, body in drive.entries(run)
        ]

    def plain(self, words: Any) -> str:
        names = {str(run.pk): f"RUN-{n}" for n, run in enumerate(self.runs())}
        text = UUIDS.sub(lambda m: names.get(m[0], "ID"), str(words))
        return TIMES.sub("TIME", text).replace(self.slug, "SLUG")

    def marks(self) -> Counter[str]:
        """Return how often each witness of these runs was written."""
        mine = [str(run.pk) for run in self.runs()]
        lines = self.world.witness.read_text().splitlines()
        return Counter(
            self.plain(line) for line in lines if any(run in line for run in mine)
        )

    def check_at_rest(self) -> None:
        """Check that nothing is open, that numbers have no gap and nothing is mended."""
        for run in self.runs():
            thread = drive.thread_of(run)
            assert not Gate.objects.filter(thread=thread, state="open").exists()
            assert not Turn.objects.active().filter(thread=thread).exists()
            assert not RunThread.objects.filter(run=run, awaiting=True).exists()
            numbers = [number for number, *_ in drive.entries(run)]
            assert numbers == list(range(1, len(numbers) + 1))
            assert not look(run.pk)
        assert sweep.sweep() == 0


@dataclass(frozen=True)
class Passed:
    """A place that a role passes in a scenario, and for the how manieth time."""

    role: str
    name: str
    time: int = 1

    def order(self) -> str:
        return f"{self.name}:{self.time}@{self.role}"


@dataclass
class Calm:
    """How a scenario goes where nobody dies but for its prelude."""

    story: list[Any]
    marks: Counter[str]
    passed: list[Passed]

    @property
    def calls(self) -> str:
        """Return the role of the workers that call what may take long, if any."""
        return next((p.role for p in self.passed if p.name == "call.opened"), "")


def undisturbed(world: World, scenario: Scenario) -> Calm:
    case = Case(world, scenario)
    case.play(*scenario.prelude, "list")
    case.check_at_rest()
    return Calm(case.story(), case.marks(), list(read_list(world)))


def read_list(world: World) -> Iterator[Passed]:
    seen: Counter[tuple[str, str]] = Counter()
    for line in (world.base / "orders.list").read_text().splitlines():
        role, name = line.split()
        if name in AMONG_REAL_WORKERS:
            continue
        seen[role, name] += 1
        yield Passed(role, name, seen[role, name])


def die_at(world: World, scenario: Scenario, calm: Calm, place: Passed) -> None:
    """Kill whoever passes the place; the rest is as if nothing had happened."""
    case = Case(world, scenario)
    done = case.play(*scenario.prelude, place.order())
    words = f"{scenario.name}, {place.order()}"
    assert len(done) == len(scenario.prelude) + 1, f"{words}: nobody died"
    asked_again = scenario.asks and place.role == "worker-turns"
    if not asked_again:
        assert case.story() == calm.story, words
    begun_again = case.marks() - calm.marks
    assert calm.marks <= case.marks(), words
    if asked_again:
        # A death in its middle is one more question, and one more yes.
        assert begun_again.total() <= 1, (words, begun_again)
    elif place.role in {"worker-steps", calm.calls} and place.name in CALLED:
        assert begun_again.total() <= 1, (words, begun_again)
    else:
        assert not begun_again, (words, begun_again)
    case.check_at_rest()


def stop_at(world: World, scenario: Scenario, calm: Calm, place: Passed) -> None:
    """Stop whoever passes the place until all is over; awake, it changes nothing."""
    case = Case(world, scenario)
    done = case.play(*scenario.prelude, f"stop {place.order()}")
    words = f"{scenario.name}, stop {place.order()}"
    assert len(done) == len(scenario.prelude) + 1, f"{words}: nobody stopped"
    before, marks = everything(), case.marks()
    world.wake()
    assert everything() == before, words
    if not (scenario.asks and place.role == "worker-turns"):
        assert case.story() == calm.story, words
    # A call in hand has nobody to ask; a command finds the record of its key.
    late = case.marks() - marks
    assert late.total() <= 1, (words, late)
    assert not [mark for mark in late if mark.startswith("work:")], (words, late)
    case.check_at_rest()


def everything() -> list[list[dict[str, Any]]]:
    """Return all that a write could have changed, thread numbers included."""
    models = (Run, RunThread, Checkpoint, Attempt, Entry, Turn, TurnMessage, Event)
    rows = [list(model.objects.order_by("pk").values()) for model in models]
    threads = Thread.objects.order_by("pk").values("id", "last_number")
    return [*rows, list(threads), list(Gate.objects.order_by("pk").values())]


def stoppable(place: Passed) -> bool:
    """Whether others can take over there: inside a transaction they wait for its end."""
    return place.role.startswith("worker-") and not place.name.endswith(".written")
