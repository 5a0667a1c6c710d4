"""What the sandboxes of this machine share: one supervisor a command, one user."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from threads.runtime.sandbox import conversation, identity, records
from threads.runtime.sandbox.protocol import Command, Result, Stop
from threads.runtime.sandbox.supervision import record
from threads.runtime.sandbox.supervision.launch import Spec

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
SHELL = "/bin/sh"

logger = logging.getLogger(__name__)


class Local(ABC):
    """Runs a command on this machine.

    read_only are folders outside the system's that a command may read and whose `bin`
    is on its PATH. As root a command runs as a user of its workspace's own where that
    user can reach the workspace and these folders; own_uid=False keeps it root.
    """

    name = ""

    def __init__(
        self, *, read_only: Sequence[str | Path] = (), own_uid: bool = True
    ) -> None:
        wanted = dict.fromkeys(Path(path).absolute() for path in read_only)
        self.read_only = [path for path in wanted if path.exists()]
        self.own_uid = own_uid and os.geteuid() == 0
        self.told: set[str] = set()
        self.census = identity.Census()
        self.closed: Path | None = None  # a folder only the worker may pass

    @abstractmethod
    def spec(self, command: Command, uid: int | None) -> Spec:
        """Return what the supervisor is told to run."""

    def run(
        self,
        command: Command,
        *,
        emit: Callable[[str], None],
        stop: Callable[[], Stop | None],
    ) -> Result:
        command.record_dir.mkdir(parents=True, exist_ok=True)
        spec = self.spec(command, self.uid(command))
        return conversation.hold(spec, command, emit=emit, stop=stop)

    def adopt(self, record_dir: Path, key: str) -> Result | None:
        return records.adopt(record_dir, key)

    def discard(self, record_dir: Path) -> None:
        records.discard(record_dir)

    def look(self) -> None:
        """Find out once whether a user without rights can reach what commands need."""
        if self.own_uid:
            self.closed = identity.closed_to_others(self.needed())

    def uid(self, command: Command) -> int | None:
        """Return the user to become, or None to stay the one of the worker."""
        if not self.own_uid:
            return None
        uid = identity.own_uid(command.workdir)
        if not identity.mapped(uid):
            self.tell(f"user {uid} does not exist in this container")
            return None
        inside = (command.workdir, command.record_dir / record.SCRATCH)
        if where := self.closed or next(
            filter(None, map(identity.closed_above, inside)), None
        ):
            self.tell(f"{where} is closed to other users")
            return None
        return uid

    def needed(self) -> list[Path]:
        """Return what the command's user must be able to read."""
        return self.read_only

    def tell(self, obstacle: str) -> None:
        if obstacle not in self.told:
            self.told.add(obstacle)
            logger.warning(
                "Commands run as root, since %s. Keep the workspaces and Python where "
                "every user can reach them, or run the workers as an ordinary user.",
                obstacle,
            )

    def processes(self, command: Command, uid: int | None) -> int | None:
        """Return the limit on processes: the kernel counts all a user runs."""
        if command.pids is None:
            return None
        if uid is not None:
            return command.pids
        # The kernel never holds root to it.
        return command.pids + self.census.of(os.geteuid()) if os.geteuid() else None

    def environment(self, command: Command, *, home: str, tmp: str) -> dict[str, str]:
        own = [str(path / "bin") for path in self.read_only if (path / "bin").is_dir()]
        return {
            "PATH": ":".join([*own, SYSTEM_PATH]),
            "HOME": home,
            "LANG": "C.UTF-8",
            "TMPDIR": tmp,
            **command.env,
        }
