"""Work with hard limits: a process of its own that can be ended at any moment."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from threads import liveness
from threads import phrases as thread_phrases
from threads.runtime import letters
from threads.runtime.sandbox import programs
from threads.runtime.sandbox.protocol import Result, SandboxBroken, Stop
from threads.runtime.watch import draining
from workflows import phrases
from workflows.engine.listed import CallFailed
from workflows.journal import Held
from workflows.models import Run

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
START_SECONDS = 60.0  # until the function begins: that is no part of its timeout
PAUSE_SECONDS = 1.0  # before a call that was cut off begins again, then twice that


class Stopped(Exception):
    """The call was ended from outside, for this reason; nothing says how it went."""

    def __init__(self, why: Stop) -> None:
        self.why = why
        super().__init__(why.value)


class CutOff(Exception):
    """The process of the call died of itself."""


class Watch:
    """Whether a call must end: its time, a cancel, its fence, a worker that drains."""

    def __init__(self, held: Held, begun: Path, timeout: float) -> None:
        self.held, self.begun, self.timeout = held, begun, timeout
        self.ends_at = self.drained_at = 0.0
        self.next_look = 0.0
        self.late = False
        self.why: Stop | None = None

    def stop(self) -> Stop | None:
        now = time.monotonic()
        if self.why is None and now >= self.next_look:
            self.next_look = now + LOOK_SECONDS
            self.why = self.look()
        self.why = self.why or self.drain(now)
        if self.why is None:
            self.late = self.past(now)
        return Stop.CANCEL if self.late else self.why

    def past(self, now: float) -> bool:
        """Whether the function has had its time, counted from its own beginning."""
        if not self.ends_at and self.begun.exists():
            self.ends_at = now + self.timeout
        return 0 < self.ends_at <= now

    def drain(self, now: float) -> Stop | None:
        if not draining.is_set():
            return None
        self.drained_at = self.drained_at or now + settings.DRAIN_SECONDS
        return Stop.DRAIN if now >= self.drained_at else None

    def look(self) -> Stop | None:
        """Read the fence; a database that does not answer says nothing either way."""
        rows = Run.objects.filter(self.held.fence(), pk=self.held.id)
        try:
            found = rows.values_list("cancel_asked_at").first()
        except (DatabaseError, InterfaceError):
            connection.close()
            return None
        if found is None:
            return Stop.LOST
        return Stop.CANCEL if found[0] is not None else None


@dataclass(frozen=True)
class Apart:
    """One execution of a step, in a process of its own.

    `program` writes down what a beginning is told and returns what runs it.
    """

    held: Held
    key: str
    timeout: float
    again: bool  # whether it may begin again where nobody knows its end
    program: Callable[[Path, int], programs.Program]

    def call(self) -> tuple[dict[str, Any], Path]:
        """Return the answer and its folder; raise CallFailed, or Stopped where ended.

        One that died of itself begins again, at most twice, unless it must not.
        """
        fault = 0
        while (found := self.answered()) is None:
            folder = self.folder(fault)
            try:
                return self.run(folder, fault), folder
            except CutOff as cut:
                logger.warning("%s: %s", self.key, cut)
                if fault == self.faults():
                    raise CallFailed(str(cut)) from cut
                liveness.pause(PAUSE_SECONDS * 2**fault)
                fault += 1
        return found

    def faults(self) -> int:
        return settings.TURN_RETRIES if self.again else 0

    def answered(self) -> tuple[dict[str, Any], Path] | None:
        """Return what an earlier worker's process left of this try, if it ended."""
        for fault in range(self.faults() + 1):
            folder = self.folder(fault)
            answer = letters.read_answer(folder)
            if answer is not None:
                return answer, folder
        return None

    def folder(self, fault: int) -> Path:
        """Return where this try is written down: its answer is found there again."""
        held = self.held
        name = f"{held.position}-{held.iteration}-{held.step_tries}-{fault}"
        return settings.WORKSPACES / str(held.id) / "calls" / name

    def run(self, folder: Path, fault: int) -> dict[str, Any]:
        program = self.program(folder, fault)
        watch = Watch(self.held, folder / letters.BEGUN, self.timeout)
        try:
            result = programs.run(program, emit=self.emit, stop=watch.stop)
        except SandboxBroken as error:
            raise CutOff(str(error)) from error
        return self.answer(folder, result, watch)

    def answer(self, folder: Path, result: Result, watch: Watch) -> dict[str, Any]:
        """Return what the process left; what has ended counts, whoever stopped it."""
        answer = letters.read_answer(folder)
        if answer is not None and watch.why is not Stop.LOST:
            return answer
        if watch.why is not None:
            raise Stopped(watch.why)
        if watch.late or result.timed_out:
            limit = thread_phrases.seconds(self.timeout)
            raise CallFailed(phrases.TOOK_LONGER.format(limit=limit))
        if result.signal is not None:
            raise CutOff(thread_phrases.KILLED.format(signal=result.signal))
        raise CutOff(thread_phrases.CUT_OFF)

    def emit(self, words: str) -> None:
        logger.info("%s: %s", self.key, words.rstrip("\n"))
