"""A `call` with a timeout: a process of its own, ended when it must be."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest
from django.db import connection

from project.embedded.waiting import until
from tests import drive, factories, hands
from threads.runtime import letters, watch
from workflows.engine import advance, apart
from workflows.models import Checkpoint, Run
from workflows.services import cancel_run, look, spawn_run

NAMES = ("told", "stay", "stubborn", "crash", "greedy", "here", "add", "leave")


@pytest.fixture(autouse=True)
def allowed(settings, calls, tmp_path, monkeypatch):
    settings.CALLS = {name: f"tests.shop.{name}" for name in NAMES}
    settings.CALLS["quickly"] = "quick:tests.shop.here"
    settings.CALLS["bound"] = "celery:tests.shop.bound"
    settings.CANCEL_SECONDS = 0.5
    monkeypatch.setattr(apart, "PAUSE_SECONDS", 0.0)
    monkeypatch.setenv("WITNESS", str(tmp_path / "witness"))


@pytest.fixture
def witness(tmp_path):
    return lambda: (
        (tmp_path / "witness").read_text().split()
        if (tmp_path / "witness").exists()
        else []
    )


def start(house, function, args=None, **more):
    step = factories.call("one", function, args=args or {}, **{"timeout": 30, **more})
    return spawn_run(factories.workflow(house, step)).run


def called(house, function, args=None, **more):
    run = drive.carry(start(house, function, args, **more))
    return Checkpoint.objects.get(run=run)


@pytest.mark.parametrize("function", ["here", "quickly"])
def test_it_runs_in_a_process_of_its_own_with_the_workers_rights(house, function):
    step = called(house, function)

    assert step.state == "completed"
    assert step.result["result"] not in {os.getpid(), None}


def test_it_knows_its_call_and_returns_json(house):
    step = called(house, "told", {"n": [1, None, "ø"]})

    assert step.result["result"] == {
        "step": "one",
        "key": f"{step.run_id}:0",
        "attempt": 1,
        "n": [1, None, "ø"],
    }


def test_a_task_is_called_there_in_the_same_way(house):
    step = called(house, "bound")

    assert step.result["result"]["threadwork_key"] == f"{step.run_id}:0"


@pytest.mark.parametrize(
    ("function", "args", "reason"),
    [
        ("add", {"c": 1}, "“add” takes no argument “c”"),
        ("leave", {}, "SystemExit: enough"),
    ],
)
def test_its_failure_comes_back_in_words(house, function, args, reason):
    assert called(house, function, args).error == reason


def test_it_is_ended_at_its_limit_with_all_that_it_started(house, witness):
    began = time.monotonic()
    step = called(house, "stubborn", timeout=1)

    assert step.error == "took longer than 1 s"
    assert time.monotonic() - began < 20
    pids = [int(line.partition(":")[2]) for line in witness()]
    assert len(pids) == 2
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_the_time_before_it_begins_is_not_counted(house):
    # A child that takes its time to come up begins its limit when its function begins.
    assert called(house, "here", timeout=0.3).state == "completed"


def test_it_may_not_take_more_memory_than_is_allowed(house, settings):
    settings.CALL_MEMORY = 512 * 1024**2

    assert called(house, "greedy").error == "it needed more memory than there is for it"


def test_one_that_dies_of_itself_begins_again_with_the_next_attempt(house):
    assert called(house, "crash", {"times": 2}).result == {"result": 3}


def test_it_dies_three_times_at_most(house):
    step = called(house, "crash", {"times": 9})

    assert step.error == "it was killed by signal 11"


def test_one_that_must_not_be_repeated_dies_once(house):
    step = called(house, "crash", {"times": 1}, if_interrupted="fail")

    assert step.error == "it was killed by signal 11"


def test_what_ended_before_its_worker_heard_of_it_is_adopted(house, settings):
    run = hands.go_on(start(house, "told"))
    held = hands.hold(run, role="worker-turns", pool="turns")
    folder = Path(settings.WORKSPACES) / str(run.pk) / "calls" / "0-1-1-0"
    letters.prepare(folder)
    letters.write(folder / letters.ANSWER, {"result": "of an earlier worker"})

    advance.carry(held, end=float("inf"))

    assert Checkpoint.objects.get().result == {"result": "of an earlier worker"}
    run.refresh_from_db()
    assert run.state == "completed"


def elsewhere(run: Run, act) -> None:
    """Carry the run on in this thread while another acts on it once it has begun."""

    def other(number: int) -> None:
        if number == 0:
            hands.go_on_there(run, once=True)
            return
        assert until(lambda: bool(Path(os.environ["WITNESS"]).exists()), seconds=20)
        act()

    hands.together(2, other)


@pytest.mark.django_db(transaction=True)
def test_a_cancel_ends_it_within_a_bounded_time(house, witness):
    run = hands.go_on(start(house, "stay"))
    began = []

    def cancel() -> None:
        cancel_run(run.pk, who="alice")
        began.append(time.monotonic())

    elsewhere(run, cancel)

    assert time.monotonic() - began[0] < 10
    run.refresh_from_db()
    assert run.state == "cancelled"
    assert drive.steps(run) == [("one", "cancelled")]
    assert len(witness()) == 1


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_shuts_down_hands_it_over_at_no_cost(house, settings, witness):
    settings.DRAIN_SECONDS = 0.2
    run = hands.go_on(start(house, "stay", {"seconds": 600}, timeout=900))
    try:
        elsewhere(run, watch.draining.set)
    finally:
        watch.draining.clear()

    run.refresh_from_db()
    assert (run.state, run.pool, run.attempts, run.crashes) == (
        "pending",
        "turns",
        1,
        0,
    )
    assert witness() == [f"stay:{run.pk}:0"]


@pytest.mark.django_db(transaction=True)
def test_one_that_was_taken_over_is_ended_and_changes_nothing(house, witness):
    run = hands.go_on(start(house, "stay", {"seconds": 600}, timeout=900))

    def take_over() -> None:
        hands.die("worker-turns")
        assert look(run.pk)

    elsewhere(run, take_over)

    run.refresh_from_db()
    assert (run.state, run.attempts, run.crashes) == ("pending", 2, 1)
    assert Checkpoint.objects.get().state == "running"
    assert connection.in_atomic_block is False
