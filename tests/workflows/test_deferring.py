"""A worker that does not know what comes next leaves it to one that does (A43, A44)."""

from __future__ import annotations

import pytest

from tests import drive, factories, hands
from threads import liveness, services, tenancy
from threads.envelopes import Payload, registry
from threads.models import Bot, House, Job, Turn
from threads.runtime import jobs
from workflows import documents, plan, pulses, selectors, tasks, why
from workflows.engine import claims
from workflows.models import Attempt, Plan, Run
from workflows.services import cancel_run, spawn_run

NEWER = [
    {"name": "paint", "kind": "paint_fence", "colour": "white"},
    {"name": "ship", "kind": "human_gate", "prompt": "Ship it?"},
]


@pytest.fixture
def run(house):
    """A run of a plan that a newer release wrote."""
    flow = factories.workflow(house, factories.gate("ship"))
    stored = Plan.objects.create(hash="newer", steps=NEWER)
    hands.sql("UPDATE workflows_workflow SET plan_id = %s", stored.pk)
    return spawn_run(flow).run


def test_an_unknown_kind_is_deferred_in_sight_and_costs_no_attempt(run):
    hands.go_on(run)
    hands.go_on(run)

    assert (run.state, run.holder, run.needs) == ("pending", None, "paint_fence")
    assert (run.attempts, run.crashes) == (1, 0)
    assert Attempt.objects.filter(run=run, ended="").count() == 1
    assert "no worker here knows the step kind “paint_fence” yet" in why.in_words(run)
    assert "paint_fence" in documents.run_line(run)["reason"]
    assert drive.bodies(run) == ["Started by System."]
    assert drive.steps(run) == []


def test_it_goes_on_with_a_worker_that_knows(run, monkeypatch):
    hands.go_on(run)

    monkeypatch.setattr(liveness, "known_kinds", {"paint_fence"})
    monkeypatch.setattr(claims, "known_kinds", {"paint_fence"})
    known = plan.parse_step({"name": "paint", "kind": "sleep", "seconds": 0})
    parse = plan.parse_step
    monkeypatch.setattr(
        plan, "parse_step", lambda s: known if s["kind"] == "paint_fence" else parse(s)
    )
    selectors.step_at.cache_clear()
    hands.go_on(run)
    selectors.step_at.cache_clear()

    assert (run.state, run.needs, run.deferred) == ("waiting", "", "")
    assert drive.steps(run) == [("paint", "completed"), ("ship", "waiting")]
    assert run.attempts == 1


def test_a_deferred_run_can_be_cancelled(run):
    hands.go_on(run)

    assert cancel_run(run.pk).state == "cancelled"


def test_a_deferred_run_does_not_stand_in_the_way_of_others(run, house):
    hands.go_on(run)
    other = spawn_run(
        factories.workflow(house, factories.gate("ask"), slug="other")
    ).run

    assert hands.go_on(other).state == "waiting"


def test_a_worker_says_which_kinds_it_knows():
    assert tasks.advance_run.name == "workflows.advance"
    assert liveness.known_kinds >= plan.KINDS


def test_a_turn_of_an_unknown_runtime_waits_in_sight(house):
    Bot.objects.update(runtime="telepathy")
    run = hands.go_on(
        spawn_run(factories.workflow(house, factories.prompt("look"))).run
    )

    drive.carry(run)

    turn = Turn.objects.get()
    assert (turn.state, turn.attempts, turn.needs) == ("pending", 0, "telepathy")
    assert run.state == "waiting"
    hands.sql("UPDATE threads_turn SET ready_at = now() - interval '1 minute'")
    assert why.in_words(run) == (
        "Waiting for a worker that can run it: no worker here knows “telepathy” yet."
    )


def test_a_turn_whose_files_no_worker_sees_names_the_root(house):
    run = hands.go_on(
        spawn_run(factories.workflow(house, factories.command("build"))).run
    )
    hands.sql("UPDATE threads_turn SET root = 'far', ready_at = now() - interval '1 m'")
    drive.holder("worker-turns")
    hands.sql("UPDATE threads_pulse SET runtimes = '[\"command\"]', root = 'near'")

    assert "workspace root far, which no worker here sees" in why.in_words(run)
    assert drive.carry(run).state == "waiting"


def test_work_of_another_namespace_is_never_claimed(house, settings):
    flow = factories.workflow(house, factories.gate("ship"))
    House.objects.filter(pk=house.pk).update(namespace="production")
    run = spawn_run(flow).run

    assert hands.go_on(run).state == "pending"
    assert run.namespace == "production"

    settings.NAMESPACE = "production"
    assert hands.go_on(run).state == "waiting"


def test_a_step_that_says_more_than_this_release_knows_still_runs(house):
    flow = factories.workflow(house, factories.gate("ship"))
    step = {"name": "ship", "kind": "human_gate", "prompt": "?", "music": "loud"}
    stored = Plan.objects.create(hash="more", steps=[step])
    hands.sql("UPDATE workflows_workflow SET plan_id = %s", stored.pk)

    assert hands.go_on(spawn_run(flow).run).state == "waiting"


def test_the_next_house_gets_its_turn(house):
    """C14: a house with much to do does not starve one with little."""
    busy = factories.workflow(house, factories.gate("ship"))
    for _ in range(6):
        spawn_run(busy)
    away = tenancy.open_house("away", name="Away")
    lone = spawn_run(factories.workflow(away, factories.gate("ship"))).run

    claims.walk.after = 0
    claimed = []
    for number in range(3):
        held = claims.claim(pool="steps", holder=drive.holder(f"w{number}"))
        assert held is not None
        claimed.append(held.id)

    assert lone.pk in claimed[:2]
    assert Run.objects.filter(state="running").count() == 3


class Party(Payload):
    type_name = "ball.v1"


del registry["ball.v1"]  # known where a test says so


def test_a_job_of_an_unknown_type_waits_in_sight_for_a_worker_that_knows_it(
    house, alice, monkeypatch
):
    monkeypatch.setitem(registry, "ball.v1", Party)
    services.post_job(Party(), house=house)
    monkeypatch.delitem(registry, "ball.v1")
    hands.sql("UPDATE threads_job SET ready_at = now() - interval '1 minute'")
    me = drive.holder("worker-jobs")

    assert jobs.work_off(holder=me) == 0

    job = Job.objects.get()
    assert (job.state, job.attempts, job.holder) == ("pending", 0, None)
    assert pulses.notes(alice) == [
        "Jobs wait for a worker that knows their type: ball.v1 (1)."
    ]

    monkeypatch.setitem(registry, "ball.v1", Party)
    guests: list[object] = []
    monkeypatch.setitem(jobs.handlers, "ball.v1", guests.append)
    assert jobs.work_off(holder=me) == 1
    job.refresh_from_db()
    assert (job.state, len(guests)) == ("succeeded", 1)
