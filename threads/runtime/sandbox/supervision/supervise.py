"""One command: wait for the right to run it, run it, write down how it ended, tell."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from socket import socket
from typing import Any

from threads.runtime.sandbox.supervision import frames, launch, record, tree
from threads.runtime.sandbox.supervision.launch import NOT_STARTED, NotStarted, Spec
from threads.runtime.sandbox.supervision.line import Line
from threads.runtime.sandbox.supervision.record import Hold
from threads.runtime.sandbox.supervision.watch import Watch

ASK_AGAIN = 0.02
EVICTION = 3.0  # then its holder is taken for stuck and killed
GIVE_UP = 8.0
TAKEN_DOWN = 0.5  # a sandbox, by the kernel

NOTHING = {
    "exit_code": None,
    "signal": None,
    "timed_out": False,
    "cancelled": False,
    "interrupted": True,
    "head": "",
    "tail": "",
    "dropped": 0,
    "seconds": 0.0,
}


class After(Enum):
    """What a supervisor is good for after a command."""

    MORE = "more"
    LEAVE = "leave"
    DIRTY = "dirty"  # something of the command would not die


def supervise(sock: socket, worker: int) -> After:
    """Serve one request of the worker."""
    line = Line(sock, worker)
    spec = line.spec()
    if spec is None:
        return After.MORE
    if not launch.fits(spec):
        line.tell(frames.UNFIT, b"")
        return After.LEAVE
    tree.adopt_orphans()
    try:
        line.tell(frames.RESULT, json.dumps(carry_out(spec, line)).encode())
    except OSError as error:
        line.tell(frames.FAULT, str(error).encode())
    line.finish()
    return After.MORE if tree.end(unasked=TAKEN_DOWN) else After.DIRTY


def carry_out(spec: Spec, line: Line) -> dict[str, Any]:
    folder = Path(spec.record_dir)
    hold = Hold(folder, spec.attempt)
    try:
        if not take_over(hold, line):
            return {**NOTHING, "key": spec.key}
        hold.sign()
        if finished := record.read(folder, spec.key):
            return {**finished, "adopted": True}
        if line.stopped():
            return {**NOTHING, "key": spec.key}
        record.forget(folder)
        with prepared(spec):
            line.tell(frames.BEGUN, b"")
            return run(spec, line, hold)
    finally:
        # A worker that is stopped never hears the result; the next one must not wait.
        hold.release()


def run(spec: Spec, line: Line, hold: Hold) -> dict[str, Any]:
    try:
        watch = Watch(spec, line, hold)
    except NotStarted as error:
        words = base64.b64encode(str(error).encode()).decode()
        ended = {**NOTHING, "exit_code": NOT_STARTED, "interrupted": False}
        return {**ended, "key": spec.key, "head": words}
    try:
        ended = watch.see_out()
    finally:
        watch.close()
    if not ended["interrupted"]:
        # Without room for the record the result is still worth telling.
        with contextlib.suppress(OSError):
            record.write(hold.folder, ended)
    return ended


def take_over(hold: Hold, line: Line) -> bool:
    """Take the hold, ending an older supervisor's command where one has it."""
    began = time.monotonic()
    killed = False
    while not hold.take():
        waited = time.monotonic() - began
        if waited > GIVE_UP or hold.outdated() or not line.wait(ASK_AGAIN):
            return False
        hold.evict()
        if waited > EVICTION and not killed:
            hold.end_holder()
            killed = True
        if line.stopped():
            return False
    return not hold.outdated()


@contextlib.contextmanager
def prepared(spec: Spec) -> Iterator[None]:
    """Make the folder for temporary files and give the command's user what is its own."""
    scratch = Path(spec.record_dir, record.SCRATCH)
    if spec.scratch:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(mode=0o700)
    if os.geteuid() == 0:
        # Root, too: without capabilities it is held to what it owns.
        uid = spec.uid or 0
        if spec.scratch:
            os.chown(scratch, uid, uid)
        give(spec.workdir, uid)
    try:
        yield
    finally:
        if spec.scratch:
            shutil.rmtree(scratch, ignore_errors=True)


def give(folder: str, uid: int) -> None:
    """Hand a folder and what is in it to a user.

    A file with a second name may be one the command linked in from elsewhere, so it stays
    whose it is. Links are not followed.
    """
    for _, folders, files, at in os.fwalk(folder):
        _give(".", uid, at)
        for name in [*folders, *files]:
            found = os.lstat(name, dir_fd=at)
            alone = found.st_nlink == 1 or stat.S_ISDIR(found.st_mode)
            if alone and found.st_uid != uid:
                _give(name, uid, at)
    Path(folder).chmod(0o700)


def _give(name: str, uid: int, at: int) -> None:
    os.chown(name, uid, uid, dir_fd=at, follow_symlinks=False)
