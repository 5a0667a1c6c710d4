"""How many steps a second: P1, quick calls, and P7, commands in the sandbox."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
from django.conf import settings

from tests import factories
from tests.bench.bed import Bed, Figure
from threads.runtime import sandbox
from threads.runtime.sandbox.bubblewrap import Bubblewrap
from threads.runtime.sandbox.protocol import Command
from workflows.models import Run, Workflow

STEPS = 10
COMMANDS = 5
FLOOR = """
CREATE TABLE IF NOT EXISTS floor (run uuid, step int, state jsonb,
    at timestamptz DEFAULT clock_timestamp(), PRIMARY KEY (run, step));
TRUNCATE floor;
"""


def calls(bed: Bed, share: float) -> list[Figure]:
    """P1: runs of ten no-op calls, spawned first, by one and by two processes."""
    steps = [factories.call(f"s{n}", "tick") for n in range(STEPS)]
    flow = bed.workflow("calls", *steps)
    return [
        calls_by(bed, flow, max(2, int(200 * share)), workers=workers)
        for workers in (1, 2)
    ]


def calls_by(bed: Bed, flow: Workflow, runs: int, *, workers: int) -> Figure:
    names = [f"steps.{n}" for n in range(workers)]
    expected = runs * STEPS
    floor = floor_rate(bed, expected)
    bed.witness.clear()
    bed.stack.up(*names)
    # Stopped while the runs are spawned, so that all begin with the work laid out.
    bed.hold(*names)
    began = time.monotonic()
    started = [bed.spawn(flow) for _ in range(runs)]
    spawning = time.monotonic() - began
    bed.count()
    commits, used = bed.commits(), bed.processor_seconds(*names)
    bed.let_go(*names)
    bed.settled(started)
    used = bed.processor_seconds(*names) - used
    bed.end(*names)
    commits = bed.commits() - commits
    floor = (floor + floor_rate(bed, expected)) / 2
    lines = bed.witness.lines()
    rate = per_second(len(lines), [line.at for line in lines])
    return Figure(
        f"P1 calls, {workers} process{'es' if workers > 1 else ''}",
        {
            "steps/s": round(rate, 1),
            "floor commits/s": round(floor, 1),
            "share of floor": round(rate / floor, 3),
            "commits/step": round(commits / expected, 2),
            "worker CPU ms/step": round(used / expected * 1000, 3),
            "spawned/s": round(runs / spawning, 1),
        },
        expected=expected,
        completed=bed.completed(started),
        repeated=len(lines) - expected,
    )


def floor_rate(bed: Bed, commits: int) -> float:
    """Return what one connection does with one INSERT and its commit a step."""
    with psycopg.connect(bed.stack.database_url, autocommit=True) as link:
        link.execute(FLOOR)
        began = time.perf_counter()
        for number in range(commits):
            if not number % STEPS:
                run = uuid4()
            link.execute(
                "INSERT INTO floor (run, step, state) VALUES (%s, %s, %s)"
                " ON CONFLICT DO NOTHING",
                (run, number % STEPS, '{"i": 1}'),
            )
        return commits / (time.perf_counter() - began)


def per_second(count: int, moments: list[int]) -> float:
    return (count - 1) / max((max(moments) - min(moments)) / 1e9, 1e-9)


def commands(bed: Bed, share: float) -> list[Figure]:
    """P7: runs of five commands that do nothing, and the sandbox bare in a loop."""
    names = ("steps", "turns")
    runs = max(2, int(200 * share))
    expected = runs * COMMANDS
    steps = [factories.command(f"s{n}") for n in range(COMMANDS)]
    flow = bed.workflow("commands", *steps)
    bare = bare_rate(bed, max(20, expected // 5))
    bed.stack.up(*names)
    bed.hold(*names)
    started = [bed.spawn(flow) for _ in range(runs)]
    bed.count()
    commits = bed.commits()
    used = bed.processor_seconds(*names)
    bed.let_go(*names)
    bed.settled(started, seconds=300)
    used = bed.processor_seconds(*names) - used
    bed.end(*names)
    commits = bed.commits() - commits
    bare = (bare + bare_rate(bed, max(20, expected // 5))) / 2
    rate = expected / lasted(started)
    box = sandbox.choose(settings.SANDBOX)
    notes = [] if isinstance(box, Bubblewrap) else [MISSING.format(name=box.name)]
    return [
        Figure(
            "P7 commands",
            {
                "steps/s": round(rate, 1),
                f"bare {box.name}/s": round(bare, 1),
                "share of bare": round(rate / bare, 3),
                "commits/step": round(commits / expected, 2),
                "worker CPU ms/step": round(used / expected * 1000, 3),
            },
            expected=expected,
            completed=bed.completed(started),
            notes=notes,
        )
    ]


MISSING = "There is no bubblewrap that works here: measured the {name} sandbox instead."


def lasted(runs: list[UUID]) -> float:
    rows = Run.objects.filter(pk__in=runs).values_list("started_at", "finished_at")
    began, ended = zip(*rows, strict=True)
    return float((max(ended) - min(began)).total_seconds())


def bare_rate(bed: Bed, count: int) -> float:
    """Return how often a loop can run the same sandbox with nothing around it."""
    folder = bed.stack.base / "bare"
    folder.mkdir(exist_ok=True)
    argv = bare_argv(folder)
    began = time.perf_counter()
    for _ in range(count):
        subprocess.run(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=True,
        )
    return count / (time.perf_counter() - began)


def bare_argv(folder: Path) -> list[str]:
    box = sandbox.choose(settings.SANDBOX)
    command = Command(
        script="true",
        key="bare",
        workdir=folder,
        record_dir=folder,
        env={},
        timeout=None,
        max_output=settings.OUTPUT_LIMIT,
        network=False,
        memory=settings.COMMAND_MEMORY,
        pids=settings.COMMAND_PROCESSES,
        fsize=settings.COMMAND_FILE_SIZE,
    )
    shell = ["/bin/sh", "-c", "true"]
    if not isinstance(box, Bubblewrap):
        return shell
    return [box.binary, *box.options(command, str(folder)), "--", *shell]
