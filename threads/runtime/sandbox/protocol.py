"""What a sandbox is: a command in, its output as it comes, a result out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

GRACE_SECONDS = 5.0


class SandboxError(Exception):
    """The sandbox could not do that."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.__doc__)


class UnknownSandbox(SandboxError):
    """No sandbox has this name."""


class SandboxBroken(SandboxError):
    """The sandbox could not start the command."""


class Stop(Enum):
    """Why a running command is to end."""

    CANCEL = "cancel"
    DRAIN = "drain"
    LOST = "lost"  # another holds the work by now: end at once and write nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    script: str
    key: str  # a finished record under the same key is adopted, not run again
    workdir: Path
    record_dir: Path
    env: Mapping[str, str]
    timeout: float | None
    max_output: int  # bytes kept, half from either end
    network: bool
    memory: int | None
    pids: int | None
    fsize: int | None
    secrets: tuple[str, ...] = ()  # values masked in whatever the command prints
    grace: float = GRACE_SECONDS  # from TERM to KILL
    attempt: int = 1  # one that begins late never ends a later one


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """How a command ended.

    The exit code is the shell's: 128 and the signal where a signal ended it, None where
    nothing ran to its end.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    cancelled: bool
    interrupted: bool  # it may have begun, and nothing says how it ended
    adopted: bool  # read from the record of an earlier worker
    output: str
    truncated: int  # bytes left out between the two ends
    seconds: float


class Sandbox(Protocol):
    name: str

    def check(self) -> list[str]:
        """Return the reasons it cannot be used here, in words, with what to do."""

    def run(
        self,
        command: Command,
        *,
        emit: Callable[[str], None],
        stop: Callable[[], Stop | None],
    ) -> Result:
        """Run a command, or adopt the record of its end; blocks until it has ended.

        An exception of emit or stop ends the command and passes through.
        """

    def adopt(self, record_dir: Path, key: str) -> Result | None:
        """Return how the command ended where a finished record of the key exists."""

    def discard(self, record_dir: Path) -> None:
        """Remove the record and what else the command left beside it."""
