from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from tests import drive, factories
from tests.hands import called, failure, go_on, take
from tests.hands import end as end_turn
from threads.services import Ending, held_by, settle_turn
from workflows.engine.conductor import Conductor
from workflows.models import Checkpoint, Run
from workflows.services import spawn_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def calls(settings):
    settings.CALLS = {"called": "tests.hands.called"}
    called.seen.clear()
    called.faults = 0


def check(**repeat):
    return factories.call(
        "check", "called", args={"value": "fine"}, repeat=repeat, on_error="continue"
    )


def ends(run: Run) -> list[tuple[int, str]]:
    rows = Checkpoint.objects.filter(run=run, name="check").order_by("iteration")
    return list(rows.values_list("iteration", "state"))


def test_a_check_runs_a_number_of_times_and_the_offenders_are_reported(house):
    called.faults = 2
    report = factories.call(
        "report", "called", args={"all": "{{steps.check.failed}}"}, when="always"
    )
    flow = factories.workflow(house, check(times=4), report)

    run = drive.carry(spawn_run(flow).run)

    assert run.state == "completed"
    assert ends(run) == [
        (1, "failed"),
        (2, "failed"),
        (3, "completed"),
        (4, "completed"),
    ]
    assert [bad["iteration"] for bad in called.seen[-1]["all"]] == [1, 2]


def test_one_failure_of_a_number_of_times_fails_the_step(house):
    called.faults = 1
    step = {**check(times=3), "on_error": "stop"}

    run = drive.carry(spawn_run(factories.workflow(house, step)).run)

    assert failure(run) == (
        "check",
        "1 of 3 iterations failed, the last: RuntimeError: the line was busy",
    )
    assert ends(run) == [(1, "failed"), (2, "completed"), (3, "completed")]


def test_a_step_repeats_until_it_succeeds(house):
    called.faults = 2
    step = {**check(until="success", times=10), "on_error": "stop"}

    run = drive.carry(spawn_run(factories.workflow(house, step)).run)

    assert run.state == "completed"
    assert ends(run) == [(1, "failed"), (2, "failed"), (3, "completed")]


def test_a_step_that_never_succeeds_fails_after_its_last_time(house):
    called.faults = 99
    step = {**check(until="success", times=2), "on_error": "stop"}

    run = drive.carry(spawn_run(factories.workflow(house, step)).run)

    assert failure(run) == ("check", "RuntimeError: the line was busy")
    assert len(ends(run)) == 2


def test_a_watch_ends_when_it_trips_and_what_follows_sees_the_failure(house):
    tripped = factories.call("tell", "called", when="on_failure")
    flow = factories.workflow(house, check(until="failure", delay=60), tripped)
    run = drive.carry(spawn_run(flow).run)
    assert run.state == "sleeping"
    called.faults = 1

    run = drive.wake(run)

    assert ends(run) == [(1, "completed"), (2, "failed")]
    assert drive.steps(run)[-1] == ("tell", "completed")
    assert run.state == "completed"


def test_a_delay_between_iterations_is_a_due_time_and_holds_nothing(house):
    flow = factories.workflow(house, check(times=2, delay="10m"))

    run = drive.carry(spawn_run(flow).run)

    assert (run.state, run.holder, run.iteration) == ("sleeping", None, 2)
    assert run.due_at is not None
    assert run.started_at is not None
    assert run.due_at - run.started_at > timedelta(minutes=9)
    assert drive.wake(run).state == "completed"


@pytest.mark.parametrize("delay", [0, 60])
def test_a_command_repeats_with_a_key_of_its_own_each_time(house, delay):
    step = factories.command("check", repeat={"times": 2, "delay": delay})
    run = go_on(spawn_run(factories.workflow(house, step)).run)
    first = take(run)
    assert end_turn(first)
    if delay:
        Run.objects.filter(pk=run.pk).update(due_at=Now())
        Conductor().wake_sleepers()
    run = go_on(run)

    second = take(run)

    assert (first.key, second.key) == (f"{run.pk}:0", f"{run.pk}:0:2")
    assert end_turn(second)
    assert go_on(run).state == "completed"


def test_a_late_end_of_one_iteration_changes_nothing_of_the_next(house):
    step = factories.command("check", repeat={"times": 2})
    run = go_on(spawn_run(factories.workflow(house, step)).run)
    first = take(run)
    assert end_turn(first)
    go_on(run)

    late = Ending("failed", "late", "", {})

    assert not settle_turn(first, late, guard=held_by(first))
    assert drive.carry(run).state == "completed"
