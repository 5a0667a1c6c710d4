"""Case 37: sleeps of any length, and gates that nobody answers for weeks."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests import drive, factories, hands
from workflows.engine.conductor import Conductor
from workflows.services import spawn_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    "step",
    [
        {"name": "rest", "kind": "sleep", "seconds": 0},
        {"name": "rest", "kind": "sleep", "seconds": "{{payload.none}}"},
        {"name": "rest", "kind": "sleep", "until": "2020-01-01T00:00:00Z"},
    ],
)
def test_a_sleep_of_nothing_or_into_the_past_passes_at_once(house, step):
    flow = factories.workflow(house, step)

    run = drive.carry(spawn_run(flow, payload={"none": 0}).run)

    assert run.state == "completed"


def test_a_sleep_of_less_than_nothing_fails_in_words(house):
    flow = factories.workflow(
        house, {"name": "rest", "kind": "sleep", "seconds": "{{payload.n}}"}
    )

    run = drive.carry(spawn_run(flow, payload={"n": -5}).run)

    assert hands.failure(run) == ("rest", "seconds: must be from 0 to a hundred years")


def test_a_sleep_of_four_hundred_days_is_kept_and_shown(house):
    flow = factories.workflow(house, factories.sleep("rest", 400 * 86_400))

    run = drive.carry(spawn_run(flow).run)

    assert run.due_at is not None
    assert run.due_at - run.created_at > timedelta(days=399)
    assert drive.bodies(run)[-1] == "Sleeping for 400 days."


def test_a_gate_without_a_limit_stands_for_sixty_days(house, alice):
    flow = factories.workflow(house, factories.gate("ask", timeout="10s"))
    run = drive.carry(spawn_run(flow).run)
    gate = drive.open_gate(run)
    hands.sql(
        "UPDATE threads_gate SET created_at = created_at - interval '60 days'"
        " WHERE id = %s",
        gate.pk,
    )
    hands.sql(
        "UPDATE workflows_runthread SET await_started_at = await_started_at"
        " - interval '60 days' WHERE run_id = %s",
        run.pk,
    )

    Conductor().turn_round()

    run.refresh_from_db()
    assert (run.state, run.attempts) == ("waiting", 1)
