"""How soon after a SIGKILL: P5, with another worker alive and with none."""

from __future__ import annotations

import time
from uuid import UUID

from tests import factories
from tests.bench.bed import Bed, Figure, Line

STEPS = 5
KILL_IN = 2  # the third step is cut off
PAIR = ("steps.a", "steps.b")

MOST_SECONDS = 3.0  # with another worker alive


def crashes(bed: Bed, share: float) -> list[Figure]:
    """P5: five steps of a second; the worker of the third is killed in its middle."""
    return [another_alive(bed), restarted(bed)]


def another_alive(bed: Bed) -> Figure:
    run = begin(bed, "conductor", *PAIR)
    line = cut_off(bed)
    victim = next(n for n in PAIR if line.process in family(bed, n))
    killed = kill(bed, victim)
    return outcome(bed, run, killed, "P5 killed, another alive")


def restarted(bed: Bed) -> Figure:
    run = begin(bed, "conductor", "steps")
    cut_off(bed)
    killed = kill(bed, "steps")
    bed.stack.start("steps")
    return outcome(bed, run, killed, "P5 killed, restarted at once")


def begin(bed: Bed, *roles: str) -> UUID:
    steps = [
        factories.call(f"s{n}", "work", args={"name": f"s{n}"}) for n in range(STEPS)
    ]
    flow = bed.workflow("crash", *steps)
    bed.witness.clear()
    bed.stack.up(*roles)
    # The house believes no session or database that is younger than five seconds.
    bed.breathe(6, 7)
    return bed.spawn(flow)


def family(bed: Bed, name: str) -> set[int]:
    return bed.stack.family(bed.stack.started[name].pid)


def cut_off(bed: Bed) -> Line:
    """Wait for the middle of the third step and return the line of its beginning."""
    name = f"s{KILL_IN}:began"
    line: Line = bed.wait(lambda: bed.witness.first(name), 30, f"{name} never came")
    bed.breathe(0.4, 0.5)
    return line


def kill(bed: Bed, name: str) -> int:
    killed = time.time_ns()
    bed.stack.kill(name)
    return killed


def outcome(bed: Bed, run: UUID, killed: int, name: str) -> Figure:
    bed.settled([run])
    bed.end(*[n for n, p in bed.stack.started.items() if p.poll() is None])
    lines = bed.witness.lines()
    went_on = next(
        line.at for line in lines if line.at > killed and line.name.endswith(":began")
    )
    ended = [line.name for line in lines if line.name.endswith(":ended")]
    return Figure(
        name,
        {
            "seconds to go on": round((went_on - killed) / 1e9, 2),
            "steps begun again": bed.repeats(),
        },
        expected=STEPS,
        completed=bed.completed([run]),
        repeated=len(ended) - len(set(ended)),
        late="alive" in name and went_on - killed > MOST_SECONDS * 1e9,
    )
