"""Start a command: its own session, limits, user and output, nothing inherited."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from dataclasses import dataclass

from threads.runtime.sandbox.supervision import tree

OPEN_FILES = (1024, 4096)
# Programs that reserve far more than they use (node, Go, Java) must still start.
ADDRESSES_PER_MEMORY = 4
# The supervisor lives under the command's limits, so none may be too small for it.
LEAST_MEMORY = 64 * 1024 * 1024
LEAST_FILE = 16 * 1024 * 1024
NOT_STARTED = 127
NATURAL = {
    limit: resource.getrlimit(limit)
    for limit in (
        *(resource.RLIMIT_CORE, resource.RLIMIT_NOFILE, resource.RLIMIT_DATA),
        *(resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC),
    )
}
ARGS = "@arguments"  # stands for the number of the file with the sealed arguments


class NotStarted(Exception):
    """The command could not be started."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec:
    """What a supervisor is told. Plain values: it travels as JSON."""

    argv: list[str]
    sealed: list[
        str
    ]  # arguments that argv reads from ARGS: no stranger sees them in ps
    env: dict[str, str]
    cwd: str
    workdir: str
    record_dir: str
    key: str
    attempt: int
    timeout: float | None
    grace: float
    max_output: int
    secrets: list[str]  # never said, never written down
    depth: int  # processes of the sandbox itself above the script's shell
    scratch: bool  # whether it needs a folder for temporary files
    uid: int | None
    memory: int | None
    processes: int | None
    fsize: int | None

    def dump(self) -> bytes:
        return json.dumps(
            {name: getattr(self, name) for name in self.__slots__}
        ).encode()

    @classmethod
    def load(cls, raw: bytes) -> Spec:
        return cls(**json.loads(raw))


def start(spec: Spec) -> tuple[subprocess.Popen[bytes], int]:
    """Start the command and return it and the pipe its output comes from."""
    out, into = os.pipe()
    sealed = -1
    try:
        sealed = seal(spec.sealed)
        tree.forbid_privileges()
        for limit, values in limits(spec).items():
            resource.setrlimit(limit, values)
        process = spawn(spec, into, sealed)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        os.close(out)
        raise NotStarted(f"The command could not be started: {error}\n") from error
    finally:
        os.close(into)
        if sealed >= 0:
            os.close(sealed)
    os.set_blocking(out, False)
    return process, out


def spawn(spec: Spec, into: int, sealed: int) -> subprocess.Popen[bytes]:
    argv = [str(sealed) if word == ARGS else word for word in spec.argv]
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=into,
        stderr=into,
        env=spec.env,
        cwd=spec.cwd,
        pass_fds=[sealed] if spec.sealed else [],
        start_new_session=True,
        umask=0o022,
        user=spec.uid,
        group=spec.uid,
        extra_groups=None if spec.uid is None else [],
    )


def seal(words: list[str]) -> int:
    if any("\0" in word for word in words):
        raise ValueError("embedded null byte")  # it would begin an argument of its own
    file = os.memfd_create("arguments")
    os.write(file, b"".join(os.fsencode(word) + b"\0" for word in words))
    os.lseek(file, 0, os.SEEK_SET)
    return file


def limits(spec: Spec) -> dict[int, tuple[int, int]]:
    """Return every limit of the command, none above what this machine allows."""
    wanted = dict(NATURAL)
    wanted[resource.RLIMIT_CORE] = (0, 0)
    wanted[resource.RLIMIT_NOFILE] = OPEN_FILES
    if spec.memory is not None:
        memory = max(spec.memory, LEAST_MEMORY)
        wanted[resource.RLIMIT_DATA] = (memory, memory)
        wanted[resource.RLIMIT_AS] = (memory * ADDRESSES_PER_MEMORY,) * 2
    if spec.fsize is not None:
        wanted[resource.RLIMIT_FSIZE] = (max(spec.fsize, LEAST_FILE),) * 2
    if spec.processes is not None:
        wanted[resource.RLIMIT_NPROC] = (spec.processes, spec.processes)
    return {limit: within(NATURAL[limit][1], wanted[limit]) for limit in NATURAL}


def within(ceiling: int, values: tuple[int, int]) -> tuple[int, int]:
    if ceiling == resource.RLIM_INFINITY:
        return values
    soft, hard = (ceiling if size(value) > ceiling else value for value in values)
    return soft, hard


def size(limit: int) -> float:
    return float("inf") if limit == resource.RLIM_INFINITY else limit


def fits(spec: Spec) -> bool:
    """Return whether this process can set the limits after those of earlier commands.

    What was lowered once is never raised, save by a root no container grants.
    """
    return all(
        size(hard) <= size(resource.getrlimit(limit)[1])
        for limit, (_, hard) in limits(spec).items()
    )
