"""What stays on disk of a command: who holds it, and how it ended."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import signal
from pathlib import Path
from typing import Any

from threads.runtime.sandbox.supervision import tree

LOCK = "lock"
RECORD = "record.json"
EVICT = "evict"  # asks the holder to end its command and let go
SCRATCH = "tmp"


def read(folder: Path, key: str) -> dict[str, Any] | None:
    """Return the finished record of the key, or None."""
    try:
        record = json.loads((folder / RECORD).read_bytes())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and record.get("key") == key else None


def write(folder: Path, record: dict[str, Any]) -> None:
    """Write the record whole or not at all."""
    draft = folder / f"{RECORD}.{os.getpid()}"
    try:
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(opened, "w") as file:
            json.dump(record, file)
        draft.replace(folder / RECORD)
    finally:
        draft.unlink(missing_ok=True)


def forget(folder: Path) -> None:
    (folder / RECORD).unlink(missing_ok=True)


class Hold:
    """The exclusive right to run the command of a folder.

    The kernel lets go of it when its holder dies, however it dies.
    """

    def __init__(self, folder: Path, attempt: int) -> None:
        self.folder = folder
        self.attempt = attempt
        self.file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self) -> bool:
        """Take it if nobody has it; True where it is ours."""
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def outdated(self) -> bool:
        """Return whether a later attempt holds it or has held it."""
        return int(self.holder().get("attempt", 0)) > self.attempt

    def holder(self) -> dict[str, Any]:
        """Return what the holder wrote of itself; empty while it has not."""
        try:
            holder = json.loads(os.pread(self.file, 4096, 0))
        except ValueError:
            return {}
        return holder if isinstance(holder, dict) else {}

    def sign(self) -> None:
        """Write down who holds it, for the one who may have to end it."""
        words = json.dumps({**_identity(os.getpid()), "attempt": self.attempt})
        os.ftruncate(self.file, 0)
        os.pwrite(self.file, words.encode(), 0)
        (self.folder / EVICT).unlink(missing_ok=True)

    def evict(self) -> None:
        """Ask the holder to end: by a file, since it may live in another container."""
        (self.folder / EVICT).touch()

    def evicted(self) -> bool:
        return (self.folder / EVICT).exists()

    def end_holder(self) -> None:
        """Kill a holder that does not answer, and its tree, where it can be known."""
        pid = int(self.holder().get("pid", 0))
        if pid and self.holder().items() >= _identity(pid).items():
            # Its orphans come to it as long as it lives: it goes last.
            tree.send([pid], signal.SIGSTOP)
            tree.kill(pid)
            tree.send([pid], signal.SIGKILL)

    def release(self) -> None:
        os.close(self.file)


def _identity(pid: int) -> dict[str, Any]:
    """Return what tells a process from another of the same number elsewhere or later."""
    return {"pid": pid, "machine": machine(), "started": tree.started(pid)}


@functools.cache
def machine() -> str:
    """Return what says whether a number of a process means the same one here."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  not a path
