"""Processes below this one: who they are, and how all of them end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterable, Iterator

PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
# Fields of /proc/<pid>/stat, counted from the one behind the name.
PARENT, STARTED = 1, 19
PASSES = 50
PATIENCE = 5.0

libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own."""
    _prctl(PR_SET_CHILD_SUBREAPER)


def forbid_privileges() -> None:
    """Let nothing started from here gain rights by a set-uid program."""
    _prctl(PR_SET_NO_NEW_PRIVS)


def _prctl(option: int) -> None:
    if libc.prctl(option, 1, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def fields(pid: int) -> list[str]:
    """Return what /proc says of a process, from its state on; empty when it is gone."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return []
    try:
        stat = os.read(file, 4096)
    except OSError:
        return []
    finally:
        os.close(file)
    # The name may hold spaces and brackets; the last bracket closes it.
    return stat[stat.rindex(b")") + 2 :].decode("ascii").split()


def started(pid: int) -> int:
    """Return when a process began, in ticks since boot; 0 when it is gone."""
    found = fields(pid)
    return int(found[STARTED]) if found else 0


def below(root: int) -> dict[int, int]:
    """Return the descendants of a process and how deep each one is."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  by far the quicker way
        if name.isdigit() and (found := fields(int(name))):
            children.setdefault(int(found[PARENT]), []).append(int(name))
    return dict(_walk(children, root))


def _walk(children: dict[int, list[int]], root: int) -> Iterator[tuple[int, int]]:
    level, depth = children.get(root, []), 1
    while level:
        yield from ((pid, depth) for pid in level)
        level = [child for pid in level for child in children.get(pid, [])]
        depth += 1


def send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill(root: int) -> None:
    """Kill every descendant found; stopped first, so that none forks away meanwhile."""
    seen: set[int] = set()
    for _ in range(PASSES):
        fresh = below(root).keys() - seen
        if not fresh:
            break
        send(fresh, signal.SIGSTOP)
        seen |= fresh
    send(seen, signal.SIGKILL)


def reap() -> bool:
    """Collect what has ended; return whether any child is left."""
    with contextlib.suppress(ChildProcessError):
        while True:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return True
    return False


def hollow() -> bool:
    """Return whether no child has children of its own; False where that cannot be known.

    Orphans of a sandbox come to its first process: without children it is the last.
    """
    try:
        return not any(children(child) for child in children(os.getpid()))
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """Return the children of a process of one thread; raise OSError where it is gone."""
    with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:  # noqa: PTH123  quicker
        return [int(word) for word in file.read().split()]


def end(*, patience: float = PATIENCE, unasked: float = 0.0) -> bool:
    """Kill and reap every descendant of this process; False where one would not die.

    What is ending by itself, as a sandbox does, is left to it for the time unasked.
    """
    began = time.monotonic()
    # No child left means no descendant left: an orphan would be our child.
    while reap():
        waited = time.monotonic() - began
        if waited > patience:
            return False
        if waited >= unasked:
            kill(os.getpid())
        time.sleep(0.0005)
    return True
