"""Our own programs under the supervisor of commands: limits and an end, no walls."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from threads.runtime.sandbox import conversation
from threads.runtime.sandbox.protocol import Command, Result, Stop
from threads.runtime.sandbox.supervision.launch import Spec


@dataclass(frozen=True, kw_only=True)
class Program:
    """A module of ours, run with the worker's own rights and environment."""

    argv: tuple[str, ...]
    cwd: Path
    folder: Path  # its own: the record of its end
    key: str
    attempt: int
    timeout: float
    grace: float
    memory: int
    max_output: int
    # Arguments in the place of `launch.ARGS`, read from a file no one else can open;
    # and what is masked in whatever the program prints.
    sealed: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


def run(
    program: Program,
    *,
    emit: Callable[[str], None],
    stop: Callable[[], Stop | None],
) -> Result:
    """Run it to its end; all it started ends with it, and it ends with this worker."""
    desk = program.folder / "desk"
    desk.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = Command(
        script="",
        key=program.key,
        workdir=desk,
        record_dir=program.folder,
        env=env,
        timeout=program.timeout,
        max_output=program.max_output,
        network=True,
        memory=program.memory,
        pids=None,
        fsize=None,
        grace=program.grace,
        attempt=program.attempt,
    )
    return conversation.hold(spec(program, command), command, emit=emit, stop=stop)


def spec(program: Program, command: Command) -> Spec:
    return Spec(
        argv=[sys.executable, *program.argv],
        sealed=list(program.sealed),
        env=dict(command.env),
        cwd=str(program.cwd),
        workdir=str(command.workdir.absolute()),
        record_dir=str(program.folder.absolute()),
        key=program.key,
        attempt=program.attempt,
        timeout=program.timeout,
        grace=program.grace,
        max_output=program.max_output,
        secrets=list(program.secrets),
        depth=0,
        scratch=False,
        uid=None,
        memory=program.memory,
        processes=None,
        fsize=None,
    )
