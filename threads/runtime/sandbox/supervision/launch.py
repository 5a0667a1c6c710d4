"""Start a command: its own session, limits, user and output, nothing inherited."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from threads.runtime.sandbox.supervision import tree

OPEN_FILES = (1024, 4096)
# Programs that reserve far more than they use (node, Go, Java) must still start.
ADDRESSES_PER_MEMORY = 4
NOT_STARTED = 127
ARGS_FD = 3
OOM_SCORE = "500"  # when memory runs out the command goes, not its supervisor


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec:
    """What a supervisor is told. Plain values: it travels as JSON."""

    argv: list[str]
    sealed: list[str]  # arguments argv reads from ARGS_FD: no stranger sees them in ps
    env: dict[str, str]
    cwd: str
    workdir: str
    record_dir: str
    key: str
    attempt: int
    timeout: float | None
    grace: float
    max_output: int
    depth: int  # processes of the sandbox itself above the script's shell
    scratch: bool  # whether it needs a folder for temporary files
    uid: int | None
    memory: int | None
    processes: int | None
    fsize: int | None

    def dump(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def load(cls, raw: bytes) -> Spec:
        return cls(**json.loads(raw))


def start(spec: Spec) -> tuple[int, int]:
    """Start the command and return its pid and the pipe its output comes from."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(spec, into)
    os.close(into)
    os.set_blocking(out, False)
    return pid, out


def _become(spec: Spec, into: int) -> NoReturn:
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(into, 1)
        os.dup2(into, 2)
        _seal(spec.sealed)
        os.closerange(ARGS_FD + bool(spec.sealed), 65536)
        _plain_signals()
        os.umask(0o022)
        _prefer_for_oom()
        for limit, values in limits(spec).items():
            _bound(limit, *values)
        if spec.uid is not None:
            os.setgroups([])
            os.setresgid(spec.uid, spec.uid, spec.uid)
            os.setresuid(spec.uid, spec.uid, spec.uid)
        tree.forbid_privileges()
        tree.die_with_parent()
        os.chdir(spec.cwd)
        os.execve(spec.argv[0], spec.argv, spec.env)  # noqa: S606  a shell is argv's
    except (OSError, ValueError) as error:
        os.write(2, f"The command could not be started: {error}\n".encode())
    finally:
        os._exit(NOT_STARTED)


def _seal(words: list[str]) -> None:
    if words:
        file = os.memfd_create("arguments", 0)
        os.write(file, b"".join(os.fsencode(word) + b"\0" for word in words))
        os.lseek(file, 0, os.SEEK_SET)
        os.dup2(file, ARGS_FD)


def _plain_signals() -> None:
    # Python ignores some, and what is ignored stays ignored in a program started.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) not in {signal.SIG_DFL, None}:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _prefer_for_oom() -> None:
    try:
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
    except OSError:
        return  # a courtesy to the machine, not a rule


def limits(spec: Spec) -> Mapping[int, tuple[int, int]]:
    bounds = {resource.RLIMIT_CORE: (0, 0), resource.RLIMIT_NOFILE: OPEN_FILES}
    if spec.memory is not None:
        bounds[resource.RLIMIT_DATA] = (spec.memory, spec.memory)
        reach = spec.memory * ADDRESSES_PER_MEMORY
        bounds[resource.RLIMIT_AS] = (reach, reach)
    if spec.fsize is not None:
        bounds[resource.RLIMIT_FSIZE] = (spec.fsize, spec.fsize)
    if spec.processes is not None:
        bounds[resource.RLIMIT_NPROC] = (spec.processes, spec.processes)
    return bounds


def _bound(limit: int, soft: int, hard: int) -> None:
    _, ceiling = resource.getrlimit(limit)
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(limit, (soft, hard))
