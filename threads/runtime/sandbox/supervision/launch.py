"""Start a command: its own session, limits, user and output, nothing inherited."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from threads.runtime.sandbox.supervision import tree

OPEN_FILES = (1024, 4096)
# Programs that reserve far more than they use (node, Go, Java) must still start.
ADDRESSES_PER_MEMORY = 4
# The supervisor lives under the command's limits, so none may be too small for it.
LEAST_MEMORY = 64 * 1024 * 1024
LEAST_FILE = 16 * 1024 * 1024
NOT_STARTED = 127
ARGS = "@arguments"  # stands for the number of the file with the sealed arguments
OOM_SCORE = Path("/proc/self/oom_score_adj")


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


def start(spec: Spec) -> tuple[subprocess.Popen[bytes], int]:
    """Start the command and return it and the pipe its output comes from."""
    out, into = os.pipe()
    sealed = seal(spec.sealed)
    try:
        tree.forbid_privileges()
        for limit, values in limits(spec).items():
            bound(limit, *values)
        with first_to_go():
            process = spawn(spec, into, sealed)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise NotStarted(f"The command could not be started: {error}\n") from error
    finally:
        os.close(into)
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
    file = os.memfd_create("arguments")
    os.write(file, b"".join(os.fsencode(word) + b"\0" for word in words))
    os.lseek(file, 0, os.SEEK_SET)
    return file


@contextlib.contextmanager
def first_to_go() -> Iterator[None]:
    """Start what is started here as the first to be killed when memory runs out."""
    own = ""
    with contextlib.suppress(OSError):
        own = OOM_SCORE.read_text()
        OOM_SCORE.write_text("500")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            OOM_SCORE.write_text(own)


def limits(spec: Spec) -> Mapping[int, tuple[int, int]]:
    bounds = {resource.RLIMIT_CORE: (0, 0), resource.RLIMIT_NOFILE: OPEN_FILES}
    if spec.memory is not None:
        memory = max(spec.memory, LEAST_MEMORY)
        reach = memory * ADDRESSES_PER_MEMORY
        bounds[resource.RLIMIT_DATA] = (memory, memory)
        bounds[resource.RLIMIT_AS] = (reach, reach)
    if spec.fsize is not None:
        size = max(spec.fsize, LEAST_FILE)
        bounds[resource.RLIMIT_FSIZE] = (size, size)
    if spec.processes is not None:
        bounds[resource.RLIMIT_NPROC] = (spec.processes, spec.processes)
    return bounds


def bound(limit: int, soft: int, hard: int) -> None:
    _, ceiling = resource.getrlimit(limit)
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(limit, (soft, hard))
