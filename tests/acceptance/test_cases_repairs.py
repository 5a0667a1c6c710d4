"""Cases 25, 26, 29 and 32: a door that is shut, work nobody takes, and gaps."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from tests import brokers, factories
from tests.acceptance.conftest import post_to
from tests.harness import Stack
from tests.kills import Calm, Case, Passed, Scenario, World, undisturbed
from tests.scenarios import KINDS
from threads import tenancy
from threads.models import House, Pulse, Turn
from workflows import pulses, sweep
from workflows.models import Run
from workflows.services import spawn_run


@pytest.fixture
def home(stack: Stack) -> House:
    return tenancy.open_house("home", name="Home")


@contextmanager
def shut_port() -> Iterator[str]:
    """Give a port on which nothing answers and nothing is refused: its line is full."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen(0)
        waiting = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)  # noqa: FBT003
            one.connect_ex(door.getsockname())
            waiting.append(one)
        try:
            yield f"redis://127.0.0.1:{door.getsockname()[1]}/0"
        finally:
            for one in waiting:
                one.close()


# Case 25: its port is blocked, so that a connection neither comes nor is refused.
@pytest.mark.timeout(120)
def test_a_blocked_port_holds_up_no_start_and_loses_none(stack: Stack, home: House):
    stack.up("conductor", "steps", "turns")
    flow = factories.workflow(home, factories.command("one", stack.mark("one")))
    with shut_port() as url:
        post_to(url)
        spawn_run(flow)
        began = time.monotonic()
        runs = [spawn_run(flow).run for _ in range(20)]
        # The first found the door shut; those that follow do not try it again.
        assert time.monotonic() - began < 10
    post_to(stack.broker.url)

    stack.wait(lambda: Run.objects.filter(state="completed").count() == 21, 30)
    assert len(runs) == 20
    assert set(stack.marks().values()) == {1}


# Case 29: a kind of work whose workers have been away for an hour.
@pytest.mark.timeout(120)
def test_work_without_workers_for_an_hour_is_told_kept_and_done_once(
    stack: Stack, home: House
):
    stack.up("conductor", "steps")
    flow = factories.workflow(home, factories.command("one", stack.mark("one")))
    runs = [spawn_run(flow).run for _ in range(20)]
    stack.wait(lambda: Turn.objects.filter(state="pending").count() == 20)
    hour = "UPDATE threads_turn SET ready_at = ready_at - interval '1 hour'"
    with connection.cursor() as cursor:
        cursor.execute(hour)
    stack.pause(5)  # some rounds of the conductor, that top up what nobody takes

    told = pulses.unclaimed(factories.member(home, "alice", role="owner"))
    assert told["turns"] == 20
    assert told["oldest_seconds"] > 3000
    # The conductor adds no more than a few a round, however long it lasts.
    assert brokers.messages(stack) <= 20 + 2 * 5
    stack.up("turns")

    stack.wait(lambda: brokers.settled(*runs), 60)
    assert len(stack.marks()) == 20
    assert set(stack.marks().values()) == {1}


GAPS = (
    "advance.claimed",
    "advance.recorded",
    "advance.settling",
    "send.committed",
    "gate.committed",
    "sleep.committed",
    "turn.claimed",
    "turn.message",
    "turn.settled",
    "finish.committed",
)


FEW = {"advance.recorded", "turn.claimed", "finish.committed", "advance.settling"}


def by_page(case: Case) -> None:
    """Look at each run's page once, as somebody does who wonders."""
    client = Client()
    client.force_login(case.world.alice)
    for run in case.runs():
        answer = client.get(reverse("workflows:run", args=[run.pk]))
        assert answer.status_code == 200


def by_sweep(case: Case) -> None:
    sweep.sweep()


def gaps(calm: Calm) -> list[Passed]:
    """Return each gap once that this scenario's workers pass."""
    found: dict[str, Passed] = {}
    for place in calm.passed:
        if place.name in GAPS and place.role.startswith("worker"):
            found.setdefault(place.name, place)
    return list(found.values())


def dead_hands() -> bool:
    """Whether anything is still in the hands of the dead."""
    dead = Pulse.objects.exclude(dead_at=None).values("pk")
    return (
        Run.objects.filter(state="running", holder__in=dead).exists()
        or Turn.objects.filter(state="running", holder__in=dead).exists()
    )


WAYS = {"page": by_page, "sweep": by_sweep}
SIMPLE = {each.name: each for each in KINDS}


# Case 32: a run stuck in the gap between two writes. All ways and gaps: in the soak.
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("kind", "way"),
    [("command", "page"), ("prompt", "sweep"), ("sleep", "page"), ("gate", "sweep")],
)
def test_one_look_or_one_sweep_moves_a_stuck_run_on(world: World, kind: str, way: str):
    calm = undisturbed(world, SIMPLE[kind])
    places = [place for place in gaps(calm) if place.name in FEW]
    assert places
    for place in places:
        repaired(world, SIMPLE[kind], calm, place, WAYS[way])


def repaired(
    world: World,
    scenario: Scenario,
    calm: Calm,
    place: Passed,
    repair: Callable[[Case], None],
) -> None:
    """Kill whoever passes the place, with no conductor then, and repair it once."""
    case = Case(world, scenario)
    case.forget()
    world.orders.write_text(place.order())
    done = world.base / "orders.done"
    died = lambda: done.exists() and bool(done.read_text())  # noqa: E731
    case.scenario = replace(scenario, mend=lambda: None if died() else scenario.mend())
    end = time.monotonic() + 20
    while not died():
        assert time.monotonic() < end, (place, case.story())
        case.round()
    world.orders.unlink(missing_ok=True)

    repair(case)

    assert not dead_hands(), place
    case.scenario = scenario
    case.play()
    assert case.story() == calm.story, place
    assert calm.marks == case.marks(), place
