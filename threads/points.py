"""Named places where a test may end this process, or stop it: the crash kit.

`THREADWORK_DIE` is an order, or the path of a file that holds one. An order is
`[stop ]NAME[:COUNT][@ROLE]`: at the COUNTth time that NAME is reached, in a process of
that ROLE, the process ends by SIGKILL, or stands still by SIGSTOP. A file's orders, one
a line, are carried out once and in turn, by whoever comes first, and counted over all
processes that name the file; `list` in it only writes down who reached what. Unset, a
place costs one comparison.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from django.db import transaction

ORDERS = os.environ.get("THREADWORK_DIE", "")

PLACES = {
    "advance.called": "a ticket came, nothing is claimed",
    "advance.claimed": "a run is claimed, nothing of its step has begun",
    "advance.ended": "a step ended under the claim, nothing is recorded",
    "advance.recorded": "a step is recorded and the run moved on",
    "advance.parked": "a run is parked and its tickets are sent",
    "advance.settling": "all steps are recorded, the run is not settled",
    "advance.settled": "the run is settled",
    "call.given": "a run is handed over to the workers that may wait, without a ticket",
    "call.opened": "a call is opened in the thread, the function has not run",
    "call.ended": "a call's function has ended, nothing is recorded",
    "release.committed": "a run is handed back, its ticket is not sent",
    "send.written": "instruction, turn and wait are written, not committed",
    "send.committed": "a step has been sent; its ticket has gone",
    "gate.written": "a question and its wait are written, not committed",
    "gate.committed": "a question stands and the run waits",
    "room.written": "a room is opened, not committed",
    "room.committed": "a room stands, the step that opened it is not recorded",
    "sleep.written": "a due time is written, not committed",
    "sleep.committed": "the run sleeps",
    "again.written": "the due time of a next try is written, not committed",
    "again.committed": "the run sleeps until its next try",
    "rest.written": "an iteration and the due time of the next, not committed",
    "rest.committed": "the run sleeps until its next iteration",
    "wait.written": "what a run waits for outside is written, not committed",
    "wait.committed": "the run waits for an event or another run",
    "finish.written": "what came back is recorded, not committed",
    "finish.committed": "what came back is recorded, the run's ticket is not sent",
    "settle.written": "a run's end is written, not committed",
    "settle.committed": "a run has ended, with its gates, steps and seats",
    "thread.written": "all that a transaction says in a thread is written",
    "thread.committed": "it is committed and its tickets are sent",
    "asked.written": "a turn is asked for, not committed",
    "asked.committed": "a turn is asked for, its ticket is not sent",
    "turn.called": "a ticket came, no turn is claimed",
    "turn.claimed": "a turn is claimed, nothing of it has begun",
    "turn.message": "a bot's message is in the log, nothing came of it",
    "turn.call": "a tool's call is in the log, the tool has not begun",
    "turn.tool": "a bot's tool has run, its result is not in the log",
    "turn.worked": "a turn's work is done, nothing is settled",
    "turn.written": "a turn's end is written, not committed",
    "turn.committed": "a turn is settled, no ticket of its run is sent",
    "turn.settled": "a turn is settled and its run moved on",
    "log.written": "a line of a turn's log is written, not committed",
    "log.committed": "a line of a turn's log is kept",
    "back.written": "a turn is handed back, not committed",
    "back.committed": "a turn is handed back, its ticket is not sent",
    "ask.written": "whether to run a command again is asked, not committed",
    "ask.committed": "whether to run a command again stands as a question",
    "woken.written": "a turn that waited for people may go on, not committed",
    "woken.committed": "a turn that waited for people may go on",
    "turn.reclaimed": "a turn is taken from the dead, its ticket is not sent",
    "conductor.stamped": "the dead are stamped, what they held is not taken",
    "conductor.topping": "work stands unclaimed, no ticket is added",
    "reclaim.written": "a run is taken from the dead, not committed",
    "reclaim.committed": "a run is taken from the dead, its ticket is not sent",
    "wake.written": "sleepers are woken, not committed",
    "wake.committed": "sleepers are woken, their tickets are not sent",
    "sweep.begun": "a sweep begins",
    "sweep.mended": "one run of a sweep is mended, others are not",
    "spawn.written": "a run, its key, seat and thread are written, not committed",
    "spawn.committed": "a run is started, its ticket is not sent",
    "join.written": "a key is written for the run that stands, not committed",
    "join.committed": "a key leads to the run that stands",
    "decide.written": "a gate is closed and its step not yet told, not committed",
    "decide.committed": "a gate is closed, the run's ticket is not sent",
    "speak.written": "a person's words are kept, not committed",
    "speak.committed": "a person's words are kept",
    "cancel.written": "a cancel is written, not committed",
    "cancel.committed": "a cancel is asked for, or has settled the run",
    "cancel.descending": "a run is asked to stop, the one it waits for is not yet",
    "pause.written": "a run is paused, not committed",
    "pause.committed": "a run is paused",
    "resume.written": "a paused run may go on, not committed",
    "resume.committed": "a paused run may go on, its ticket is not sent",
    "hand.written": "a step is ended by hand, not committed",
    "hand.committed": "a step is ended by hand, the run's ticket is not sent",
    "overdue.written": "a run's deadline has passed and it is to stop, not committed",
    "overdue.committed": "a run that is past its deadline is to stop",
    "emit.written": "an event and whom it wakes are written, not committed",
    "emit.committed": "an event stands, the tickets of those it woke are not sent",
    "slot.written": "a slot, its run and the next time are written, not committed",
    "slot.committed": "a slot has fired",
    "seat.written": "a seat is handed over, not committed",
    "seat.committed": "a seat is handed over, the next run's ticket is not sent",
    "posted.written": "a job is written, not committed",
    "posted.committed": "a job stands, its ticket is not sent",
    "job.claimed": "a job is claimed, nothing of it has begun",
    "job.handled": "a job's work is done, nothing is settled",
    "job.settled": "a job is settled",
    "job.retried": "a job's next try is on the row",
    "job.reclaimed": "a job is taken from the dead, its ticket is not sent",
}
ORDER = re.compile(r"(?:(stop) )?([a-z]+\.[a-z]+)(?::(\d+))?(?:@([a-z-]+))?")


class NoSuchPlace(ValueError):
    """There is no such place in the registry."""


@dataclass
class Here:
    """What this process is, and what it has passed."""

    role: str = os.environ.get("THREADWORK_ROLE", "")


here = Here()
passed: Counter[str] = Counter()


def reached(name: str) -> None:
    """End or stop this process here, not by an exception, where a test asked for it."""
    if not ORDERS:
        return
    if name not in PLACES:
        raise NoSuchPlace(name)
    if "/" in ORDERS:
        obey_file(Path(ORDERS), name)
    else:
        obey_word(name)


def written(stem: str) -> None:
    """Mark both sides of a commit: all is written, and, later, it is committed.

    What is asked for after the commit from here on, as a ticket, comes after the second.
    """
    if not ORDERS:
        return
    reached(f"{stem}.written")
    transaction.on_commit(partial(reached, f"{stem}.committed"))


@dataclass(frozen=True)
class Order:
    """Where a process ends or stops, at which arrival, and of which role."""

    name: str
    count: int = 1
    role: str = ""
    stop: bool = False

    def fits(self, name: str) -> bool:
        return name == self.name and self.role in {"", here.role}

    def carry_out(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP if self.stop else signal.SIGKILL)


def parse(words: str) -> Order:
    """Read an order; raise NoSuchPlace where it names none."""
    found = ORDER.fullmatch(words)
    if found is None or found[2] not in PLACES:
        raise NoSuchPlace(words)
    return Order(found[2], int(found[3] or 1), found[4] or "", stop=bool(found[1]))


def obey_word(name: str) -> None:
    order = parse(ORDERS)
    if order.fits(name):
        passed[name] += 1
        if passed[name] == order.count:
            order.carry_out()


def obey_file(path: Path, name: str) -> None:
    words = first_line(path)
    if words == "list":
        with path.with_suffix(".list").open("a") as names:
            names.write(f"{here.role or '-'} {name}\n")
    elif words:
        order = parse(words)
        if order.fits(name) and last_of(path, words, order.count):
            order.carry_out()


def first_line(path: Path) -> str:
    """Return the order that stands first; an empty string where there is none."""
    try:
        return path.read_text().partition("\n")[0].strip()
    except FileNotFoundError:
        return ""


def last_of(path: Path, words: str, count: int) -> bool:
    """Count this arrival under a lock; True for the one that the order means.

    The order is then taken away, and `.done` says which it was and who obeys it.
    """
    with path.with_suffix(".count").open("a+") as tally:
        fcntl.flock(tally, fcntl.LOCK_EX)
        if first_line(path) != words:
            return False  # another process was first
        tally.seek(0)
        if tally.read().splitlines().count(words) < count - 1:
            tally.write(f"{words}\n")
            return False
        tally.truncate(0)
        later = path.read_text().partition("\n")[2]
        if later.strip():
            path.write_text(later)
        else:
            path.unlink()
        with path.with_suffix(".done").open("a") as done:
            done.write(f"{words} {os.getpid()}\n")
    return True
