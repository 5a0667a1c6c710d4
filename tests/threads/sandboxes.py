"""What the sandbox tests share, and the worker they kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from threads.runtime.sandbox.bubblewrap import Bubblewrap, find_binary
from threads.runtime.sandbox.local import Local
from threads.runtime.sandbox.process import Process
from threads.runtime.sandbox.protocol import Command, Result, Sandbox, Stop

ROOT = Path(__file__).resolve().parents[2]
PYTHON = (sys.prefix, sys.base_prefix)
MISSING = "needs bubblewrap: apt install bubblewrap"

MADE: dict[str, Local] = {}
needs_bubblewrap = pytest.mark.skipif(
    not find_binary() and not os.environ.get("REQUIRE_ALL"), reason=MISSING
)
each = pytest.mark.parametrize(
    "box", ["process", pytest.param("bubblewrap", marks=needs_bubblewrap)]
)


def sandbox(name: str) -> Sandbox:
    if name not in MADE:
        kind = {"process": Process, "bubblewrap": Bubblewrap}[name]
        MADE[name] = kind(read_only=PYTHON)
    made: Any = MADE[name]
    return made  # type: ignore[no-any-return]


def command(folder: Path, script: str, **changes: Any) -> Command:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    values: dict[str, Any] = {
        "script": script,
        "key": uuid4().hex,
        "workdir": work,
        "record_dir": folder / "record",
        "env": {},
        "timeout": 30.0,
        "max_output": 20_000,
        "network": False,
        "memory": 4 * 1024**3,
        "pids": 512,
        "fsize": 1024**3,
        "grace": 0.5,
    }
    return Command(**{**values, **changes})


def run(
    box: str,
    folder: Path,
    script: str,
    *,
    emit: Callable[[str], None] = lambda _: None,
    stop: Callable[[], Stop | None] = lambda: None,
    **changes: Any,
) -> Result:
    return sandbox(box).run(command(folder, script, **changes), emit=emit, stop=stop)


def nap() -> str:
    """Return a sleep that can be told from every other one on the machine."""
    return f"sleep 300.{uuid4().int % 10**12:012d}"


def alive(words: str) -> list[int]:
    """Return the processes that run exactly these words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            said = path.read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode()
        except (OSError, ValueError):
            continue
        if said == words:
            found.append(int(path.parent.name))
    return found


def until(true: Callable[[], object], *, seconds: float = 20.0) -> None:
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit, "it did not come true in time"
        time.sleep(0.02)  # noqa: TID251  looks again, up to a limit


class Worker:
    """A process of its own that runs one command and prints the result."""

    def __init__(self, box: str, wanted: Command) -> None:
        fields = {**asdict(wanted), "env": dict(wanted.env)}
        for name in ("workdir", "record_dir"):
            fields[name] = str(fields[name])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.threads.sandboxes", box, json.dumps(fields)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def signal(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def result(self) -> dict[str, Any]:
        said, _ = self.process.communicate(timeout=30)
        answer: dict[str, Any] = json.loads(said)
        return answer


def main(box: str, raw: str) -> None:
    fields = json.loads(raw)
    for name in ("workdir", "record_dir"):
        fields[name] = Path(fields[name])
    wanted = Command(**fields)
    result = sandbox(box).run(wanted, emit=lambda _: None, stop=lambda: None)
    sys.stdout.write(json.dumps(asdict(result)))


if __name__ == "__main__":
    main(*sys.argv[1:])
