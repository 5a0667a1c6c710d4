"""Folders for embedded servers, and an end to all that was started in them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from project import local
from project.embedded import places, waiting
from project.embedded.servers import Server

PROGRAMS = {"postgres", "valkey-server"}
# Root becomes nobody for good; what it needs of Python is imported before.
DROP = """
import os, sys
from pathlib import Path
import encodings.idna, secrets, psycopg, redis
from project.embedded import postgres, valkey
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
"""


@contextmanager
def base(*, mode: int = 0o755, below: str = "") -> Iterator[Path]:
    """Yield a folder; afterwards nothing runs in it and nothing is left of it."""
    top = Path(tempfile.mkdtemp(prefix="threadwork-"))
    top.chmod(mode)
    folder = top / below if below else top
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        links = [link.readlink() for link in top.rglob("*") if link.is_symlink()]
        end_all([top, *links])
        for target in links:
            shutil.rmtree(target, ignore_errors=True)
            if target.is_relative_to(places.SHELTER):
                shutil.rmtree(target.parent, ignore_errors=True)
        shutil.rmtree(top, ignore_errors=True)


def end_all(folders: list[Path]) -> None:
    """Kill the servers that work below these folders, and no others."""
    found = []
    for process in psutil.process_iter():
        try:
            at = Path(process.cwd())
            inside = any(at.is_relative_to(folder) for folder in folders)
            if process.name() in PROGRAMS and inside:
                process.kill()
                found.append(process)
        except psutil.Error:
            continue
    psutil.wait_procs(found, timeout=10)


def kill(server: Server) -> None:
    """SIGKILL, and see it gone."""
    os.kill(server.pid, signal.SIGKILL)
    assert waiting.until(lambda: not server.lives(), seconds=10)


def python(script: str, *words: str) -> str:
    """Run a script of the project in a process of its own; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=local.BASE_DIR,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
