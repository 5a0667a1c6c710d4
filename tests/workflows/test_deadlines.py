from __future__ import annotations

from datetime import timedelta

import pytest

from tests import drive, factories
from tests.hands import failure, go_on, take
from threads.models import Gate
from threads.services import Ending, held_by, settle_turn
from workflows.engine.conductor import Conductor
from workflows.models import Run
from workflows.services import look, spawn_run

pytestmark = pytest.mark.django_db(transaction=True)


def begin(house, *steps):
    flow = factories.workflow(house, *steps, deadline="6s", notify=["owner"])
    return go_on(spawn_run(flow).run)


def outlive(run: Run) -> None:
    assert run.deadline_at is not None
    Run.objects.filter(pk=run.pk).update(
        deadline_at=run.deadline_at - timedelta(seconds=7)
    )


@pytest.mark.parametrize("step", [factories.sleep("rest", 65), factories.gate("ask")])
def test_a_run_that_waits_past_its_deadline_fails_once(house, step):
    run = begin(house, step)
    outlive(run)

    Conductor().stop_overdue()
    Conductor().stop_overdue()

    run.refresh_from_db()
    assert (run.state, run.attempts) == ("failed", 1)
    assert failure(run) == (step["name"], "the run took longer than 6 s")
    assert not Gate.objects.filter(state="open").exists()
    assert (
        drive.bodies(run).count(
            f"Failed at {step['name']}: the run took longer than 6 s"
        )
        == 1
    )


def test_the_clock_of_a_deadline_starts_with_the_first_attempt(house):
    flow = factories.workflow(house, factories.gate(), deadline="1h")
    run = spawn_run(flow).run
    assert run.deadline_at is None

    run = go_on(run)

    assert run.deadline_at is not None
    assert run.started_at is not None
    assert run.deadline_at - run.started_at == timedelta(hours=1)


def test_a_command_past_the_runs_deadline_is_stopped_and_then_the_run_fails(house):
    run = begin(house, factories.command("work"))
    turn = take(run)
    outlive(run)

    assert look(run.pk)

    turn.refresh_from_db()
    assert turn.cancel_asked_at is not None
    run.refresh_from_db()
    assert run.state == "waiting"
    assert settle_turn(turn, Ending("cancelled", "stopped"), guard=held_by(turn))
    run.refresh_from_db()
    assert (run.state, failure(run)[1]) == ("failed", "the run took longer than 6 s")


def test_a_look_before_the_deadline_leaves_it_standing(house):
    flow = factories.workflow(house, factories.gate(), deadline="1h")
    run = go_on(spawn_run(flow).run)

    assert not look(run.pk)

    assert Run.objects.get().deadline_at is not None
