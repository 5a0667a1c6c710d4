"""Waiting for a run and reading its thread as it grows. The run never depends on it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection

from workflows import services
from workflows.cli.output import Out
from workflows.models import Run

TICK_SECONDS = 0.2
LOOK_SECONDS = 5.0  # how often the run is checked while nothing else may check it
PATIENCE_SECONDS = 120.0  # how long a database that went away is waited for
EXITS = {"completed": 0, "failed": 3, "cancelled": 4}
NOT_ENDED = 5


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
