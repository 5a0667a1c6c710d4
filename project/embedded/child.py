"""A child process that is started again when it dies, and its lines."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from project import local

QUICK_SECONDS = 2.0
PAUSE_LIMIT = 5.0
LINE_LIMIT = 65_536


@dataclass
class Child:
    """One role: its command, its process while there is one, when to start it next."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    sockets: Sequence[int] = ()
    process: subprocess.Popen[bytes] | None = None
    output: int = -1
    silent: bool = False
    ended: int | None = None
    due: float = 0.0
    born: float = 0.0
    quick_deaths: int = 0
    rest: bytes = field(default=b"", repr=False)

    def start(self, *, stdout: int | None = None) -> None:
        """Start in a session of its own: Ctrl-C is for `up`, which ends all in order."""
        self.output, inside = os.pipe()
        os.set_blocking(self.output, False)
        try:
            self.process = subprocess.Popen(
                self.argv,
                env=dict(self.env),
                cwd=local.BASE_DIR,
                stdin=subprocess.DEVNULL,
                stdout=inside if stdout is None else stdout,
                stderr=inside,
                pass_fds=self.sockets,
                start_new_session=True,
            )
        finally:
            os.close(inside)
        self.born = time.monotonic()
        self.ended = None
        self.silent = False

    def lines(self) -> list[str]:
        """Return what was written since, as whole lines."""
        with suppress(BlockingIOError):
            while len(self.rest) <= LINE_LIMIT:  # the others have lines, too
                chunk = os.read(self.output, LINE_LIMIT)
                self.rest += chunk
                if not chunk:
                    self.silent = True
                    break
        *whole, self.rest = self.rest.split(b"\n")
        if len(self.rest) > LINE_LIMIT:
            whole, self.rest = [*whole, self.rest], b""
        return [line.decode(errors="replace") for line in whole]

    def died(self) -> bool:
        """Look whether the process has ended; then end its group and reap it."""
        if self.process is None or not ended(self.process):
            return False
        # Not reaped yet, so the number is still its own and cannot mean others.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.ended = self.process.wait()
        self.process = None
        return True

    def last_lines(self) -> list[str]:
        """Return what is left, and let the pipe go."""
        lines = self.lines()
        while more := self.lines():
            lines += more
        if self.rest:
            lines.append(self.rest.decode(errors="replace"))
        self.rest = b""
        os.close(self.output)
        return lines

    def put_off(self) -> float:
        """Set when to start again: at once, later where it keeps dying young."""
        now = time.monotonic()
        young = now - self.born < QUICK_SECONDS
        self.quick_deaths = self.quick_deaths + 1 if young else 0
        pause = 0.0
        if self.quick_deaths > 1:
            pause = min(PAUSE_LIMIT, 0.25 * 2 ** min(self.quick_deaths - 1, 10))
        self.due = now + pause
        return pause

    def end(self, number: signal.Signals, *, group: bool = False) -> None:
        """Signal the process, or all of its group."""
        if self.process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            if group:
                os.killpg(self.process.pid, number)
            else:
                self.process.send_signal(number)

    def how_it_ended(self) -> str:
        if self.ended is None or self.ended >= 0:
            return f"status {self.ended}"
        return f"signal {-self.ended}"


def ended(process: subprocess.Popen[bytes]) -> bool:
    """Look without reaping, where the system can."""
    look = getattr(os, "waitid", None)  # a Mac has it from Python 3.13 on
    if look is None:
        return process.poll() is not None
    how = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return look(os.P_PID, process.pid, how) is not None
