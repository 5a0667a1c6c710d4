"""Run a command in the sandbox under a turn, once where a record says how it ended."""

from __future__ import annotations

import time
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from threads import phrases, services, tenancy
from threads.exceptions import NotFound
from threads.models import Turn, TurnMessage
from threads.runtime import sandbox, workspace
from threads.runtime.sandbox.protocol import Command, Result
from threads.runtime.watch import Watch
from threads.services import Ending

LOG_SECONDS = 1.0


class Refused(Exception):
    """The command cannot begin, and no retry would change that."""


class Interrupted(Exception):
    """An earlier worker died in the middle and the step asks not to run it again."""


class Output:
    """Writes what a command prints to the turn's log while it runs."""

    def __init__(self, turn: Turn, *, draft: bool = False) -> None:
        self.turn = turn
        # Words of a message that is not kept yet: it replaces them.
        self.mark = {"draft": turn.attempts} if draft else {}
        self.held = ""
        self.left = settings.OUTPUT_LIMIT
        self.next_write = time.monotonic() + LOG_SECONDS

    def emit(self, chunk: str) -> None:
        self.held = (self.held + chunk)[-settings.OUTPUT_LIMIT :]
        if self.left <= 0 or time.monotonic() < self.next_write:
            return
        ready, self.held = self.held[: self.left], ""
        self.next_write = time.monotonic() + LOG_SECONDS
        self.left -= len(ready)
        self.write(ready)

    def write(self, words: str) -> None:
        try:
            services.log_message(
                self.turn,
                kind=TurnMessage.Kind.OUTPUT,
                body={"text": words, **self.mark},
            )
        except (DatabaseError, InterfaceError):
            connection.close()  # progress only: the end is written with insistence


def run(turn: Turn, script: str, *, watch: Watch, call: int = 0) -> Result:
    """Run a script in the run's workspace; raise Refused or Interrupted.

    A record of the same command left by a worker that died is adopted instead.
    """
    spec = turn.spec
    try:
        secrets = tenancy.open_secrets(turn.house_id, spec.get("secrets", []))
        work = workspace.prepare(turn)
    except (NotFound, workspace.NoSource) as error:
        raise Refused(str(error)) from error
    box = sandbox.choose(settings.SANDBOX)
    record = workspace.record_dir(turn, call)
    key = f"{spec.get('env', {}).get('THREADWORK_KEY', turn.key)}:{call}"
    if careful(turn) and record.exists():
        adopted = box.adopt(record, key)
        if adopted is None:
            raise Interrupted
    return box.run(
        command_of(turn, script, key=key, work=work, record=record, secrets=secrets),
        emit=Output(turn).emit,
        stop=watch.stop,
    )


def careful(turn: Turn) -> bool:
    """Whether a command that may have begun must not simply begin again."""
    # A person's yes is for the attempt that follows it and for no later one.
    agreed = turn.spec.get("again") == turn.attempts
    return turn.spec.get("if_interrupted", "again") != "again" and not agreed


def command_of(
    turn: Turn,
    script: str,
    *,
    key: str,
    work: Path,
    record: Path,
    secrets: dict[str, str],
) -> Command:
    spec = turn.spec
    attempt = str(spec.get("tries", 1) + turn.crashes + turn.faults)
    return Command(
        script=script,
        key=key,
        workdir=work,
        record_dir=record,
        env={**spec.get("env", {}), "THREADWORK_ATTEMPT": attempt, **secrets},
        timeout=spec.get("timeout") or settings.TURN_SECONDS,
        max_output=settings.OUTPUT_LIMIT,
        network=bool(spec.get("network")),
        memory=settings.COMMAND_MEMORY,
        pids=settings.COMMAND_PROCESSES,
        fsize=settings.COMMAND_FILE_SIZE,
        secrets=tuple(secrets.values()),
        grace=settings.CANCEL_SECONDS,
        attempt=turn.attempts,
    )


def ending(turn: Turn, result: Result) -> Ending:
    """Return how a command's turn ends: its exit status decides."""
    kept = {
        "output": result.output,
        "exit_code": result.exit_code,
        "truncated": result.truncated,
    }
    says = result.output.rstrip("\n") or phrases.NO_OUTPUT
    data = {"exit_code": result.exit_code, "truncated": result.truncated}
    if result.cancelled:
        return Ending("cancelled", phrases.STOPPED, says, kept, data)
    reason = failure(turn, result)
    state = Turn.State.FAILED if reason else Turn.State.SUCCEEDED
    return Ending(state, reason, says, kept, data)


def failure(turn: Turn, result: Result) -> str:
    if result.timed_out:
        limit = turn.spec.get("timeout") or settings.TURN_SECONDS
        return phrases.TURN_TOO_LONG.format(limit=phrases.seconds(limit))
    if result.exit_code == 0:
        return ""
    if result.signal is not None:
        return phrases.KILLED.format(signal=result.signal)
    return phrases.EXIT_STATUS.format(status=result.exit_code)
