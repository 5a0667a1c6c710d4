"""Case 33: two updates in two orders. No deadlock, and none that surfaces as a failure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from tests import brokers, drive, factories, hands
from tests.harness import Stack
from tests.load import deadlocks
from threads import gates
from threads.exceptions import ThreadError
from threads.models import Gate, House
from workflows import sweep
from workflows.exceptions import WorkflowError
from workflows.models import Run
from workflows.services import cancel_run, look, spawn_run
from workflows.setup import open_home


@pytest.fixture
def home(stack: Stack) -> House:
    return open_home()[0]


def many(home: House, count: int) -> list[Run]:
    step = factories.call("count", "witness", args={"line": "c:{{run.id}}"})
    flow = factories.workflow(
        home, factories.command("work", "true"), step, factories.gate("ask")
    )
    return [spawn_run(flow).run for _ in range(count)]


def answer_all(person: Any) -> None:
    for pk in Gate.objects.filter(state="open").values_list("pk", flat=True):
        with contextlib.suppress(ThreadError):
            gates.decide(pk, person=person, answer="approve", door="page")


@pytest.mark.timeout(180)
def test_finishing_cancelling_answering_and_sweeping_at_once_never_lock_each_other(
    stack: Stack, home: House
):
    before = deadlocks()
    alice = factories.member(home, "alice")
    stack.up("conductor", "steps.a", "steps.b", "turns.a", "turns.b")
    runs = many(home, 40)

    def act(number: int) -> None:
        for run in runs:
            if number == 0 and run.pk.int % 4 == 0:
                with contextlib.suppress(WorkflowError):
                    cancel_run(run.pk, by=alice)
            elif number == 1:
                sweep.sweep()
            elif number == 2:
                look(run.pk)
            else:
                answer_all(alice)

    hands.together(6, act)

    def over() -> bool:
        answer_all(alice)
        return brokers.settled(*runs)

    stack.wait(over, 60)
    assert deadlocks() == before
    ended = set(Run.objects.values_list("state", flat=True))
    assert ended <= {"completed", "cancelled"}
    assert set(stack.marks().values()) == {1}


@pytest.fixture
def serializable(transactional_db: None) -> Iterator[None]:
    """Let every session that begins from here on be the strictest there is."""
    name = connection.settings_dict["NAME"]
    words = f'ALTER DATABASE "{name}" {{}} default_transaction_isolation'
    with connection.cursor() as cursor:
        cursor.execute(words.format("SET") + " TO serializable")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(words.format("RESET"))


@pytest.mark.timeout(180)
def test_transactions_that_must_begin_again_are_no_failure_of_a_run(
    serializable: None, stack: Stack, home: House
):
    alice = factories.member(home, "alice")
    stack.up("conductor", "steps.a", "steps.b", "turns.a", "turns.b")
    runs = many(home, 20)

    def over() -> bool:
        answer_all(alice)
        return brokers.settled(*runs)

    stack.wait(over, 90)

    assert set(Run.objects.values_list("state", flat=True)) == {"completed"}
    assert {run.crashes for run in Run.objects.all()} == {0}
    for run in runs:
        numbers = [number for number, *_ in drive.entries(run)]
        assert numbers == list(range(1, len(numbers) + 1))
