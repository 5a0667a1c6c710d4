"""What becomes of a step whose worker died in the middle, or met a fault of its own."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from django.db import OperationalError

from tests import drive, factories
from tests.hands import die, end, take
from threads import gates, hands, services
from threads.models import Turn
from threads.runtime import turns, workspace
from threads.runtime.watch import Watch
from workflows.engine import advance
from workflows.models import Run
from workflows.services import look, spawn_run


@pytest.fixture
def begun(house):
    """Return a maker of runs whose command an earlier worker began and never ended."""

    def make(if_interrupted: str) -> Run:
        step = factories.command("pay", "echo paid", if_interrupted=if_interrupted)
        run = spawn_run(factories.workflow(house, step)).run
        advance.advance(pool="steps", holder=drive.holder(), hint=run.pk)
        turn = Turn.objects.get(thread=drive.thread_of(run))
        workspace.record_dir(turn).mkdir(parents=True)
        return run

    return make


def test_an_interrupted_command_runs_again_by_default(begun):
    run = drive.carry(begun("again"))

    assert run.state == "completed"
    assert "paid" in drive.bodies(run)


def test_a_command_not_to_be_repeated_fails_where_nobody_knows_its_end(begun):
    run = drive.carry(begun("fail"))

    assert run.state == "failed"
    assert "nothing says how it ended" in (run.failure or {})["reason"]
    assert "paid" not in drive.bodies(run)


def test_a_command_that_asks_waits_for_a_person_and_runs_again_on_yes(begun, alice):
    run = drive.carry(begun("ask"))
    assert run.state == "waiting"
    assert "paid" not in drive.bodies(run)

    gates.speak(drive.thread_of(run), person=alice, text="yes")
    drive.carry(run)

    assert run.state == "completed"
    assert "paid" in drive.bodies(run)


def test_a_command_that_asks_fails_its_step_on_no(begun, alice):
    run = drive.carry(begun("ask"))

    gates.speak(drive.thread_of(run), person=alice, text="no")
    drive.carry(run)

    assert run.state == "failed"
    assert (run.failure or {})["step"] == "pay"
    assert "paid" not in drive.bodies(run)


def test_a_command_that_asks_does_so_again_where_that_run_is_interrupted_too(
    begun, alice
):
    run = drive.carry(begun("ask"))
    gates.speak(drive.thread_of(run), person=alice, text="yes")
    turn = take(run)
    die("worker-turns")
    assert services.reclaim_turn(turn.pk)

    drive.carry(run)

    assert drive.open_gate(run).title == "pay"
    assert "paid" not in drive.bodies(run)


@pytest.fixture
def cut_off(house, monkeypatch: pytest.MonkeyPatch):
    """Return a maker of runs whose command loses its supervisor while it runs."""

    def make(if_interrupted: str) -> Run:
        step = factories.command(
            "pay", "echo paid; sleep 60", if_interrupted=if_interrupted
        )
        run = spawn_run(factories.workflow(house, step)).run
        advance.advance(pool="steps", holder=drive.holder(), hint=run.pk)
        turn = take(run)

        def kill(watch: Watch) -> None:
            lock = workspace.record_dir(turn) / "lock"
            if lock.exists() and (words := lock.read_text()):
                os.kill(json.loads(words)["pid"], signal.SIGKILL)

        with monkeypatch.context() as patch:
            patch.setattr(Watch, "stop", kill)
            turns.work(turn)
        return run

    return make


def test_a_command_cut_off_beside_a_living_worker_is_tried_again(cut_off):
    run = cut_off("again")

    turn = Turn.objects.get()
    assert (turn.state, turn.reason) == ("pending", "it was cut off before it ended")
    Turn.objects.update(ready_at=turn.created_at)
    assert end(take(run), output="paid")
    assert drive.carry(run).state == "completed"


def test_a_command_cut_off_that_is_not_to_be_repeated_fails_at_once(cut_off):
    run = drive.carry(cut_off("fail"))

    assert run.state == "failed"
    assert "nothing says how it ended" in (run.failure or {})["reason"]


def test_a_command_cut_off_that_asks_waits_for_a_person(cut_off):
    run = drive.carry(cut_off("ask"))

    assert run.state == "waiting"
    assert drive.open_gate(run).title == "pay"


def test_a_fault_nobody_foresaw_is_counted_as_a_crash_and_bounded(
    house, monkeypatch: pytest.MonkeyPatch
):
    def broken(*args: Any) -> None:
        raise KeyError("a mistake of ours")

    monkeypatch.setattr("workflows.engine.advance.begin", broken)
    flow = factories.workflow(house, factories.command("one"), max_attempts=2)
    run = spawn_run(flow).run

    for _ in range(2):
        advance.advance(pool="steps", holder=drive.holder(), hint=run.pk)
        assert look(run.pk)

    run.refresh_from_db()
    assert run.state == "failed"
    assert run.failure == {
        "step": "one",
        "reason": "the worker died 2 times at this step",
    }


def test_a_run_is_handed_back_at_no_cost_where_the_database_went_away(
    house, monkeypatch: pytest.MonkeyPatch
):
    def away(*args: Any) -> None:
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr("django.db.connection.close", lambda: None)
    run = spawn_run(factories.workflow(house, factories.command("one"))).run
    with monkeypatch.context() as patch:
        patch.setattr("workflows.engine.advance.begin", away)
        patch.setattr("django.conf.settings.SLICE_SECONDS", 0)
        advance.advance(pool="steps", holder=drive.holder(), hint=run.pk)

    run.refresh_from_db()
    assert (run.state, run.attempts, run.crashes) == ("pending", 1, 0)
    assert drive.carry(run).state == "completed"
    assert hands.held == set()
