"""Waiting for a run and reading what it does. The run never depends on it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection

from workflows import selectors, services
from workflows.cli.output import Out
from workflows.models import Run
from workflows.selectors import Progress

TICK_SECONDS = 0.2
LOOK_SECONDS = 5.0  # how often the run is checked while nothing else may check it
PATIENCE_SECONDS = 120.0  # how long a database that went away is waited for
EXITS = {"completed": 0, "failed": 3, "cancelled": 4}
NOT_ENDED = 5
MOST = 1_000_000  # characters of a line of a log


class Stream:
    """What a turn has written, as far as its whole lines have been taken to be shown."""

    def __init__(self, turn: UUID | None = None) -> None:
        self.turn = turn
        self.last = 0
        self.shown = ""
        self.held = ""

    def read(self, run: UUID) -> Progress | None:
        return selectors.progress(run, most=MOST, after=self.last)

    def take(self, found: Progress) -> list[str]:
        """Return the lines that have come to their end."""
        self.last = found.last
        words = selectors.told(found.lines, before=self.held)
        whole, end, self.held = words.rpartition("\n")
        self.shown += whole + end
        return whole.split("\n") if end else []

    def rest(self, body: str) -> list[str] | None:
        """Return what a message says beyond what was shown, or None if it is another."""
        if not self.shown.strip():
            return None
        if body == self.shown.rstrip("\n"):
            return []
        if body.startswith(self.shown):
            return body[len(self.shown) :].split("\n")
        # An earlier try wrote before it; what this one wrote was shown all the same.
        return [] if f"\n{self.shown}".endswith(f"\n{body}\n") else None


class Watcher:
    """Reads one run's row again and again until it has ended or the time is up."""

    def __init__(self, out: Out, run: UUID) -> None:
        self.out = out
        self.run = run
        self.next_look = time.monotonic() + LOOK_SECONDS
        self.lost_since: float | None = None

    def until_ended(
        self, *, seconds: float | None, each: Callable[[], str | None] | None = None
    ) -> str | None:
        """Return the state it ended in, or None where the time was up before."""
        end = None if seconds is None else time.monotonic() + seconds
        pause = threading.Event()
        while True:
            # The state before the thread: what ended the run is then in the thread.
            state = self.patiently(self.state)
            if each is not None:
                self.patiently(each)
            if state in Run.SETTLED:
                return state
            left = TICK_SECONDS if end is None else end - time.monotonic()
            if left <= 0:
                return None
            pause.wait(min(TICK_SECONDS, left))

    def state(self) -> str:
        if time.monotonic() >= self.next_look:
            self.next_look = time.monotonic() + LOOK_SECONDS
            services.look(self.run)
        return Run.objects.values_list("state", flat=True).get(pk=self.run)

    def patiently(self, read: Callable[[], str | None]) -> str | None:
        """Read; a database that restarts meanwhile costs a notice, not the wait."""
        try:
            found = read()
        except (OperationalError, InterfaceError):
            connection.close()
            now = time.monotonic()
            if self.lost_since is None:
                self.lost_since = now
                self.out.notice("The database does not answer; trying again.")
            if now - self.lost_since > PATIENCE_SECONDS:
                raise
            return None
        self.lost_since = None
        return found
