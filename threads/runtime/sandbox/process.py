"""Commands as plain processes: ended to the last one, but not shut in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from threads.runtime.sandbox.local import SHELL, Local
from threads.runtime.sandbox.protocol import Command
from threads.runtime.sandbox.supervision import record
from threads.runtime.sandbox.supervision.launch import Spec


class Process(Local):
    """Runs commands with limits and a supervisor that ends all they start.

    They see the machine's files, network and processes as their user may.
    """

    name = "process"

    def __init__(
        self, *, read_only: Sequence[str | Path] = (), own_uid: bool = True
    ) -> None:
        super().__init__(read_only=read_only, own_uid=own_uid)
        self.look()

    def check(self) -> list[str]:
        try:
            os.close(os.pidfd_open(os.getpid()))
        except (AttributeError, OSError):
            return ["Commands need Linux 5.3 or newer: run the workers there."]
        return []

    def spec(self, command: Command, uid: int | None) -> Spec:
        home = str(command.workdir.absolute())
        records = command.record_dir.absolute()
        tmp = str(records / record.SCRATCH)
        return Spec(
            argv=[SHELL, "-c", command.script],
            sealed=[],
            env=self.environment(command, home=home, tmp=tmp),
            cwd=home,
            workdir=home,
            record_dir=str(records),
            key=command.key,
            attempt=command.attempt,
            timeout=command.timeout,
            grace=command.grace,
            max_output=command.max_output,
            secrets=list(command.secrets),
            depth=0,
            scratch=True,
            uid=uid,
            memory=command.memory,
            processes=self.processes(command, uid),
            fsize=command.fsize,
        )
