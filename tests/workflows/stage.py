"""What the state machine plays on: a house of its own, its workers and its witness."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

from django.db import connection
from django.test import override_settings

from tests import drive, factories, hands
from threads import burial, tenancy
from threads.models import Gate, Turn
from workflows import calling
from workflows.journal import Held
from workflows.models import Checkpoint, Run, RunThread, Workflow

numbers = itertools.count(1)


class Died(BaseException):
    """The process has ended at this place."""


class Fuse:
    """Ends the caller at the nth place it comes to; at none unless it is lit."""

    left: int | None = None

    def reached(self, name: str) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left <= 0:
            self.left = None
            raise Died(name)

    @contextmanager
    def lit(self, places: int | None) -> Iterator[list[str]]:
        died: list[str] = []
        self.left = places
        try:
            yield died
        except Died as end:
            died.append(str(end))
            connection.run_on_commit = []
        finally:
            self.left = None


fuse = Fuse()


class Witness:
    """Sees every beginning of a step, and refuses what must not begin again."""

    def __init__(self) -> None:
        self.begun: Counter[tuple[str, int]] = Counter()
        self.zombie = False
        self.meanwhile: Callable[[UUID], object] | None = None

    @contextmanager
    def of_a_zombie(self) -> Iterator[None]:
        self.zombie = True
        try:
            yield
        finally:
            self.zombie = False

    def saw(self, key: str, number: int) -> None:
        if self.zombie:
            return  # what it began may have been finished by another
        run, position, *more = key.split(":")
        iteration = int(more[0]) if more else 1
        ended = Checkpoint.objects.filter(
            run=UUID(run), position=position, iteration=iteration
        ).filter(state__in=Checkpoint.ENDED)
        assert not ended.exists(), f"the finished step {key} began again"
        self.begun[key, number] += 1
        assert self.begun[key, number] == 1, f"try {number} of {key} began twice"


witness = Witness()


def act(*, fails: int = 0) -> str:
    """Do the work of a `call` step: fail as often as it says, while others act."""
    now = calling.current()
    assert now is not None
    witness.saw(now.key, now.attempt)
    meanwhile, witness.meanwhile = witness.meanwhile, None
    if meanwhile is not None:
        meanwhile(UUID(now.run))
    if now.attempt <= fails:
        raise RuntimeError("the line was busy")
    return "done"


class Ears(logging.Handler):
    """Hears what the loops log as a fault and would go on from."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        info = record.exc_info
        fault = info[1] if info else None
        self.heard.append(f"{record.getMessage()}: {fault!r}")


class Stage:
    """A house in a namespace of its own, so that no example sees another."""

    def __init__(self) -> None:
        name = f"m{next(numbers)}"
        self.settings = override_settings(NAMESPACE=name)
        self.settings.enable()
        self.house = tenancy.open_house(name, name=name)
        roles = {"alice": "owner", "bob": "member", "carol": "viewer"}
        self.people = {
            name: factories.member(self.house, name, role=role)
            for name, role in roles.items()
        }
        away = tenancy.open_house("away", name="Away")
        self.people["dave"] = factories.member(away, "dave")
        self.some = False  # runs have been started
        self.workers: dict[str, int] = {}
        witness.__init__()  # type: ignore[misc]
        self.ears = Ears()
        for app in ("workflows", "threads"):
            logging.getLogger(app).addHandler(self.ears)

    def leave(self) -> None:
        """Take what a broken example left out of the way of the next."""
        for table in ("workflows_run", "threads_turn", "threads_gate"):
            hands.sql(
                f"UPDATE {table} SET namespace = 'gone'"  # noqa: S608
                " WHERE house_id = %s AND state NOT IN ('completed', 'failed',"
                " 'cancelled', 'succeeded', 'closed')",
                self.house.pk,
            )
        for app in ("workflows", "threads"):
            logging.getLogger(app).removeHandler(self.ears)
        self.settings.disable()

    def worker(self, name: str) -> int:
        """Return the process that goes by this name now."""
        if name not in self.workers:
            self.workers[name] = drive.holder(f"{name}-{next(numbers)}")
        return self.workers[name]

    def dies(self, name: str) -> None:
        """Stamp the process as dead; the next of this name is another."""
        if name in self.workers:
            burial.stamp([self.workers.pop(name)])

    def flow(self, slug: str) -> Workflow | None:
        return Workflow.objects.current().filter(house=self.house, slug=slug).first()

    def active(self) -> list[Run]:
        return list(
            Run.objects.active().filter(house=self.house).order_by("created_at")
        )

    def gate(self, run: UUID) -> Gate | None:
        """Return the run's open question, or the last that it had."""
        wait = RunThread.objects.get(run=run)
        return Gate.objects.filter(thread=wait.thread_id).order_by("-state").first()

    def time_passes(self, run: UUID) -> None:
        """Let every moment come that the run has named."""
        thread = RunThread.objects.get(run=run).thread_id
        past = "%s = %s - interval '30 days' WHERE %s IS NOT NULL AND"
        for table, column, which, value in (
            ("workflows_run", "due_at", "id", run),
            ("workflows_run", "deadline_at", "id", run),
            ("threads_gate", "due_at", "thread_id", thread),
            ("threads_turn", "due_at", "thread_id", thread),
        ):
            words = past % (column, column, column)
            hands.sql(f"UPDATE {table} SET {words} {which} = %s", value)  # noqa: S608
        hands.sql(
            "UPDATE threads_turn SET ready_at = statement_timestamp()"
            " WHERE thread_id = %s AND state = 'pending'",
            thread,
        )

    def lease_passes(self, run: UUID) -> None:
        """Let go of a run and its turn by time alone: their worker may still live."""
        thread = RunThread.objects.get(run=run).thread_id
        for table, which, value in (
            ("workflows_run", "id", run),
            ("threads_turn", "thread_id", thread),
        ):
            hands.sql(
                f"UPDATE {table} SET held_until = now() - interval '1 second'"  # noqa: S608
                f" WHERE {which} = %s AND state = 'running'",
                value,
            )

    def is_held(self, held: Held) -> bool:
        return Run.objects.filter(held.fence(), pk=held.id).exists()

    def is_taken(self, turn: Turn) -> bool:
        mine = Turn.objects.held(turn.holder, turn.attempts)
        return mine.filter(pk=turn.pk).exists()
