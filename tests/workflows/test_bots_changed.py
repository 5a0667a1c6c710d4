"""Case 49: the bot of a run is edited while the run waits for it, or for a person."""

from __future__ import annotations

import pytest

from tests import drive, factories, hands
from threads import gates
from threads.liveness import known_runtimes
from threads.models import Bot, Pulse, Turn
from threads.runtime.bots import RUNTIMES
from threads.runtime.bots.protocol import Final
from workflows import sweep, why
from workflows.models import Run
from workflows.services import look, spawn_run


def change(house, **values) -> None:
    Bot.objects.filter(house=house).update(**values)


@pytest.mark.parametrize(
    "values",
    [
        {"handle": "renamed", "name": "Renamed"},
        {"instructions": "Say nothing.", "model": "other", "tools": ["ask_person"]},
        {"runtime": "ghost", "limits": {"calls": 0}},
    ],
)
def test_a_run_that_waits_for_a_person_ends_whatever_became_of_its_bot(
    house, alice, values
):
    flow = factories.workflow(
        house, factories.gate("ask"), factories.command("work", "echo done")
    )
    run = drive.carry(spawn_run(flow).run)
    change(house, **values)

    gates.decide(drive.open_gate(run).pk, person=alice, answer="yes", door="page")

    assert drive.carry(run).state == "completed"
    bot = Bot.objects.get(house=house)
    assert {turn.bot_id for turn in Turn.objects.all()} == {bot.pk}
    assert hands.wait_of(run).worker_bot_id == bot.pk


@pytest.mark.parametrize("begun", [False, True])
def test_a_turn_that_was_asked_for_is_answered_by_the_runtime_it_was_asked_of(
    house, begun
):
    flow = factories.workflow(house, factories.prompt("look"))
    run = hands.go_on(spawn_run(flow).run)
    if begun:
        hands.take(run)
        hands.die("worker-turns")
        assert look(run.pk)
    change(house, runtime="ghost")

    run = drive.carry(run)

    assert run.state == "completed"
    assert "scripted stand-in" in "\n".join(drive.bodies(run))


@pytest.mark.parametrize("mend", [look, lambda run: sweep.sweep()])
def test_a_turn_asked_of_nobody_waits_in_sight_and_follows_its_bot_to_another(
    house, mend
):
    change(house, runtime="ghost")
    flow = factories.workflow(house, factories.prompt("look"))
    run = drive.carry(spawn_run(flow).run)
    Pulse.objects.update(runtimes=["command", "scripted"])
    hands.sql("UPDATE threads_turn SET ready_at = ready_at - interval '1 minute'")
    assert not mend(run.pk)
    assert "ghost" in why.in_words(run)

    change(house, runtime="scripted")

    assert mend(run.pk)
    assert not mend(run.pk)
    assert drive.carry(run).state == "completed"


def test_a_turn_that_somebody_here_can_answer_stays_with_whom_it_was_asked_of(house):
    flow = factories.workflow(house, factories.prompt("look"))
    run = hands.go_on(spawn_run(flow).run)
    drive.holder("worker-turns")
    Pulse.objects.update(runtimes=["command", "scripted", "other"])
    change(house, runtime="other")

    assert not look(run.pk)

    assert Turn.objects.get().needs == "scripted"


@pytest.fixture
def other(monkeypatch):
    class Other:
        name = "other"

        def next_move(self, prompt, log):
            return Final("other")

    monkeypatch.setitem(RUNTIMES, "other", Other())
    known_runtimes.add("other")
    yield
    known_runtimes.discard("other")


def test_the_next_run_is_answered_by_the_bot_as_it_is_now(house, other):
    flow = factories.workflow(house, factories.prompt("look"))
    first = hands.go_on(spawn_run(flow).run)
    change(house, runtime="other")

    second = drive.carry(spawn_run(flow).run)

    assert "other" in drive.bodies(second)
    assert "other" not in drive.bodies(drive.carry(first))
    assert {run.state for run in Run.objects.all()} == {"completed"}
