"""What an `up` that was killed left running, told by a mark in its environment.

A pid on file may belong to somebody else by now. The mark is read from the process
itself, is inherited by whatever it started, and a signal is only sent to the process
that showed it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

MARK = "THREADWORK_UP"
GRACE_SECONDS = 5


def marked(folder: Path) -> Iterator[psutil.Process]:
    """Yield the processes, our own aside, that an `up` of this folder started."""
    for process in psutil.process_iter():
        try:
            if (
                process.pid != os.getpid()
                and process.environ().get(MARK) == str(folder)
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                yield process
        except psutil.Error:
            continue


def end(folder: Path) -> int:
    """Let the roles left over drain for a moment, then end all; return how many."""
    found = list(marked(folder))
    pids = {process.pid for process in found}
    # A pool's children follow their parent; asked first they would drop their work.
    tops = [process for process in found if parent(process) not in pids]
    for process in tops:
        quietly(process.terminate)
    psutil.wait_procs(tops, timeout=GRACE_SECONDS)
    for process in marked(folder):
        quietly(process.kill)
    psutil.wait_procs(found, timeout=GRACE_SECONDS)
    return len(tops)


def parent(process: psutil.Process) -> int:
    try:
        return process.ppid()
    except psutil.Error:
        return 0


def quietly(signal: Callable[[], None]) -> None:
    with suppress(psutil.Error):  # it ended in the meantime
        signal()
