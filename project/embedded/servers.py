"""What the embedded servers share: how one is started, recognised and ended."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from project.embedded import waiting
from project.embedded.places import Place, ServerFailed

LOG_LIMIT = 10_000_000  # bytes; then the file is put aside at the next start


class Detached(subprocess.Popen[bytes]):
    """A process that may outlive whoever started it, so dropping it is no mistake."""

    def __del__(self) -> None:
        return


@dataclass(frozen=True)
class Server:
    """A server that answers: where, as which process, and whether it is our child."""

    url: str
    pid: int
    place: Place
    handle: psutil.Process = field(repr=False)  # knows a reused pid from its own
    child: Detached | None = field(default=None, repr=False)

    def lives(self) -> bool:
        # Reaped first, where it is ours. A server of many threads shows as a zombie
        # for a moment before it can be reaped, and serves nobody by then.
        ended = self.child is not None and self.child.poll() is not None
        return not ended and living(self.handle)


def living(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def working_in(folder: Path, program: str) -> Iterator[psutil.Process]:
    """Yield every process of the program that works in this folder.

    Files and sockets may be stale and pids reused; a process's own folder is neither.
    """
    for process in psutil.process_iter():
        try:
            if (
                process.name() == program
                and process.status() != psutil.STATUS_ZOMBIE
                and process.cwd() == str(folder)
            ):
                yield process
        except psutil.Error:
            continue


def identity(place: Place) -> dict[str, Any]:
    """Return Popen's arguments for a server: its account, and none of our privileges."""
    common: dict[str, Any] = {
        "cwd": "/",
        "umask": 0o077,
        "stdin": subprocess.DEVNULL,
        # PGPORT and its like would change what the server does.
        "env": {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
    }
    if place.account:
        common |= {
            "user": place.account.uid,
            "group": place.account.gid,
            "extra_groups": [],
        }
    return common


def launch(argv: Sequence[str | Path], place: Place) -> Detached:
    """Start a server in a session of its own, so no Ctrl-C or hang-up reaches it."""
    if place.log.exists() and place.log.stat().st_size > LOG_LIMIT:
        place.log.replace(place.log.with_name("log.1"))
    with place.log.open("ab") as log:
        try:
            return Detached(
                argv,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **identity(place),
            )
        except OSError as error:
            raise ServerFailed(f"{argv[0]} cannot be run: {error}") from error


def last_words(place: Place) -> str:
    """Return the end of the server's log, for the message that says it failed."""
    try:
        lines = place.log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-5:])


def end(server: Server, steps: Sequence[tuple[signal.Signals, float]]) -> None:
    """Ask the server to end, ever more firmly; return when it has."""
    for number, seconds in steps:
        if not server.lives():
            break
        try:
            server.handle.send_signal(number)
        except psutil.NoSuchProcess:
            break
        waiting.until(lambda: not server.lives(), seconds=seconds)
    if server.child:
        with suppress(subprocess.TimeoutExpired):
            server.child.wait(5)
