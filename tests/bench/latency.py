"""How soon: P2, a start; P3, an answer or an event; P4, a sleeper's due time."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from uuid import UUID

from tests import drive, factories
from tests.bench.bed import Bed, Figure, percentiles
from threads import gates
from workflows import events
from workflows.models import Run

ROLES = ("conductor", "steps", "turns")
REST = 3.0  # seconds a P4 run sleeps
NAME = "{{payload.name}}"


def starts(bed: Bed, share: float) -> list[Figure]:
    """P2: on an idle stack, from just before the spawn until the step's code runs."""
    count = max(5, int(100 * share))
    flow = bed.workflow("start", marking("now", "{{payload.name}}"))
    bed.witness.clear()
    bed.stack.up(*ROLES)
    started, samples, calls = [], [], []
    for number in range(count):
        bed.breathe(0.05, 0.55)
        began = time.time_ns()
        started.append(bed.spawn(flow, {"name": f"start{number}"}))
        calls.append((time.time_ns() - began) / 1e9)
        samples.append(seconds_until(bed, f"start{number}", began))
    bed.settled(started)
    bed.end(*ROLES)
    return [
        Figure(
            "P2 start",
            {
                **percentiles(samples, 50, 95, 99),
                "spawn call p50 ms": percentiles(calls, 50)["p50 ms"],
            },
            expected=count,
            completed=bed.completed(started),
            repeated=bed.repeats(),
        )
    ]


def answers(bed: Bed, share: float) -> list[Figure]:
    """P3: from just before a gate's answer until the next step's code runs."""

    def answer(run: UUID) -> Callable[[], object]:
        gate = drive.open_gate(Run.objects.get(pk=run)).pk
        return lambda: gates.decide(
            gate, person=bed.person, answer="approve", door="page"
        )

    return resumed(bed, share, "answer", factories.gate(), answer)


def happenings(bed: Bed, share: float) -> list[Figure]:
    """P3: from just before an event is emitted until the next step's code runs."""
    wait: dict[str, object] = {"name": "wait", "kind": "wait_for_event"}

    def emit(run: UUID) -> Callable[[], object]:
        name = Run.objects.get(pk=run).payload["name"]
        return lambda: events.emit_event(bed.house, name)

    return resumed(bed, share, "event", {**wait, "event": NAME}, emit)


def resumed(
    bed: Bed,
    share: float,
    name: str,
    wait: dict[str, object],
    ends: Callable[[UUID], Callable[[], object]],
) -> list[Figure]:
    """Park runs on a step and measure how soon what ends each wait is felt."""
    count = max(5, int(100 * share))
    flow = bed.workflow(name, wait, marking("then", "{{payload.name}}"))
    bed.witness.clear()
    bed.stack.up(*ROLES)
    started = [bed.spawn(flow, {"name": f"{name}{n}"}) for n in range(count)]
    parked = Run.objects.filter(pk__in=started, state=Run.State.WAITING)
    bed.wait(lambda: parked.count() == count, 60, "the runs are not parked")
    samples = []
    for number, run in enumerate(started):
        end = ends(run)
        bed.breathe(0.05, 0.55)
        began = time.time_ns()
        end()
        samples.append(seconds_until(bed, f"{name}{number}", began))
    bed.settled(started)
    bed.end(*ROLES)
    return [
        Figure(
            f"P3 {name}",
            {**percentiles(samples, 50, 95)},
            expected=2 * count,
            completed=bed.completed(started),
            repeated=bed.repeats(),
        )
    ]


def resumptions(bed: Bed, share: float) -> list[Figure]:
    """P3: an answer and an event, each until the next step's code runs."""
    return [*answers(bed, share), *happenings(bed, share)]


def sleepers(bed: Bed, share: float) -> list[Figure]:
    """P4: how late runs go on that slept for three seconds."""
    count = max(5, int(50 * share))
    flow = bed.workflow(
        "sleep",
        marking("before", "before{{payload.n}}"),
        factories.sleep(seconds=REST),
        marking("after", "after{{payload.n}}"),
    )
    bed.witness.clear()
    bed.stack.up(*ROLES)
    started: list[UUID] = []
    for number in range(count):
        started.append(bed.spawn(flow, {"n": number}))
        bed.breathe(0.02, 0.08)
    bed.settled(started)
    bed.end(*ROLES)
    at = {line.name: line.at for line in bed.witness.lines()}
    samples = [(at[f"after{n}"] - at[f"before{n}"]) / 1e9 - REST for n in range(count)]
    return [
        Figure(
            "P4 lateness",
            {**percentiles(samples, 50, 95)},
            expected=3 * count,
            completed=bed.completed(started),
            repeated=bed.repeats(),
        )
    ]


def marking(step: str, name: str) -> dict[str, object]:
    return factories.call(step, "mark", args={"name": name})


def seconds_until(bed: Bed, name: str, began: int) -> float:
    look = partial(bed.witness.first, name)
    line = bed.wait(look, 30, f"{name} was never reached")
    return float((line.at - began) / 1e9)
