"""Stacks that share a database and a broker never touch each other's work (A43)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from project import queues
from tests import drive, factories, hands
from threads import access, burial, services, tenancy
from threads.envelopes import registry
from threads.exceptions import NotFound
from threads.jobs import mail
from threads.models import House, Job, Pulse
from threads.runtime import jobs, turns
from workflows import documents, setup, slots
from workflows.cli import acting
from workflows.cli.output import Refusal
from workflows.engine.conductor import Conductor
from workflows.models import Run, Slot
from workflows.reconcile import look
from workflows.services import spawn_run
from workflows.sweep import sweep


@pytest.fixture
def theirs(house):
    """A house of a stack called staging, on the same database."""
    made = tenancy.open_house("staging", name="Staging")
    House.objects.filter(pk=made.pk).update(namespace="staging")
    made.refresh_from_db()
    return made


@pytest.fixture
def as_staging(settings):
    """Act as the other stack for a moment."""

    def act(what):
        settings.NAMESPACE = "staging"
        try:
            return what()
        finally:
            settings.NAMESPACE = "default"

    return act


def parked(theirs, as_staging, *steps, slug):
    """Return a run of theirs that their worker has brought to where it waits."""
    run = spawn_run(factories.workflow(theirs, *steps, slug=slug)).run
    as_staging(lambda: hands.go_on(run))
    return run


def test_the_names_on_the_broker_are_a_stacks_own_and_the_pools_stay_their_alias():
    ours, staged = queues.declared("default"), queues.declared("staging")

    def names(found):
        return [(q.name, q.exchange.name, q.routing_key) for q in found]

    assert names(ours) == [(pool,) * 3 for pool in queues.POOLS]
    assert names(staged) == [(f"staging.{pool}",) * 3 for pool in queues.POOLS]
    assert [q.alias for q in staged] == list(queues.POOLS)
    assert queues.own("celery", "staging") == "staging.celery"


def test_a_due_row_of_theirs_is_left_to_their_conductor(theirs, as_staging):
    asleep = parked(theirs, as_staging, factories.sleep(), slug="a")
    asking = parked(theirs, as_staging, factories.gate(deadline="1h"), slug="b")
    slow = parked(theirs, as_staging, factories.command("c"), slug="c")
    as_staging(lambda: hands.take(slow))
    held = spawn_run(factories.workflow(theirs, factories.gate(), slug="d")).run
    as_staging(lambda: hands.hold(held, role="worker-theirs"))
    hands.die("worker-theirs")
    runs = [asleep, asking, slow, held]
    for run in runs:
        drive.late(run, by=timedelta(days=1))
    before = states(runs)

    Conductor().turn_round()
    sweep()
    assert not any(look(run.pk) for run in runs)

    assert states(runs) == before == ["sleeping", "waiting", "waiting", "running"]
    as_staging(lambda: Conductor().turn_round())
    assert states(runs) == ["pending"] * 4


def states(runs):
    found = dict(Run.objects.values_list("pk", "state"))
    return [found[run.pk] for run in runs]


def test_their_schedule_fires_once_and_only_there(theirs, as_staging):
    flow = factories.workflow(theirs, factories.gate(), schedule="@hourly")
    hands.sql(
        "UPDATE workflows_workflow SET next_slot_at = date_trunc('hour', now())"
        " WHERE id = %s",
        flow.pk,
    )

    # Beat reads every row of the database, so it asks for theirs too.
    assert slots.fire_due(flow.pk) is None
    Conductor().fire_schedules()
    assert not Run.objects.exists()

    assert as_staging(lambda: slots.fire_due(flow.pk))
    assert as_staging(lambda: slots.fire_due(flow.pk)) is None
    assert Slot.objects.count() == Run.objects.count() == 1


def test_their_next_slot_does_not_wake_this_conductor(theirs, as_staging):
    factories.workflow(theirs, factories.gate(), schedule="@hourly")
    hands.sql("UPDATE workflows_workflow SET next_slot_at = now() + interval '0.1 s'")

    assert Conductor().seconds_to_next(since=0) > 0.4
    assert as_staging(lambda: Conductor().seconds_to_next(since=0)) < 0.2


def test_turns_and_jobs_of_theirs_are_not_claimed(theirs, as_staging):
    parked(theirs, as_staging, factories.command("build"), slug="a")
    jobs.handlers["mail.v1"] = mail.handle
    hands.sql(
        "INSERT INTO threads_job (id, house_id, namespace, type, payload, state,"
        " attempts, last_error, dedupe_key) VALUES (gen_random_uuid(), %s, 'staging',"
        " 'mail.v1', '{}', 'pending', 0, '', '')",
        theirs.pk,
    )
    me = drive.holder("worker-turns")

    assert turns.claim(pool="turns", holder=me) is None
    assert jobs.claim(me) is None

    assert as_staging(lambda: turns.claim(pool="turns", holder=me))
    assert as_staging(lambda: jobs.claim(me))


def test_an_orphaned_job_or_turn_of_theirs_is_left_alone(theirs, as_staging):
    run = parked(theirs, as_staging, factories.command("build"), slug="a")
    turn = as_staging(lambda: hands.take(run, role="worker-theirs"))
    Job.objects.create(
        house=theirs,
        namespace="staging",
        type="mail.v1",
        payload={},
        state="running",
        attempts=1,
        holder=turn.holder,
    )
    hands.die("worker-theirs")

    Conductor().bury_the_dead()

    assert Job.objects.get().state == "running"
    turn.refresh_from_db()
    assert turn.state == "running"
    as_staging(lambda: Conductor().bury_the_dead())
    assert Job.objects.get().state == "pending"
    turn.refresh_from_db()
    assert (turn.state, turn.crashes) == ("pending", 1)


def test_their_dead_are_theirs_to_bury(house, as_staging, monkeypatch):
    monkeypatch.setattr(burial, "LOOK_SECONDS", 0)
    Pulse.objects.create(
        namespace="staging", role="worker-steps", name="w", host="h", process=1,
        version="", locked=True,
    )  # fmt: skip
    hands.sql("UPDATE threads_pulse SET started_at = now() - interval '1 minute'")
    ours, staged = burial.Watch(), burial.Watch()

    assert twice(ours) == []

    assert as_staging(lambda: len(twice(staged))) == 1


def twice(watch):
    first = watch.look()
    watch.seen_at -= 1
    return first + watch.look()


def test_no_ticket_is_topped_up_for_work_of_theirs(
    theirs, as_staging, posted, monkeypatch, django_capture_on_commit_callbacks
):
    monkeypatch.setattr("threads.post.waiting_tickets", lambda queue: 0)
    spawn_run(factories.workflow(theirs, factories.gate()))
    hands.sql("UPDATE workflows_run SET ready_at = now() - interval '1 minute'")
    drive.holder()
    posted.clear()

    with django_capture_on_commit_callbacks(execute=True):
        Conductor().top_up()

    assert posted == []


def test_people_see_the_houses_of_the_stack_they_opened(
    theirs, house, alice, as_staging
):
    factories.member(theirs, "alice", role="owner")
    run = spawn_run(factories.workflow(theirs, factories.gate())).run
    hands.sql("UPDATE workflows_run SET ready_at = now() - interval '1 minute'")

    assert list(access.houses(alice)) == [house]
    with pytest.raises(NotFound):
        access.membership(alice, theirs.pk)
    found = documents.runs(alice)
    assert (found["runs"], found["unclaimed"]["count"]) == ([], 0)
    with pytest.raises(Refusal, match="there is home"):
        acting.find_house("staging")
    there = as_staging(lambda: documents.runs(alice))
    assert [line["id"] for line in there["runs"]] == [str(run.pk)]
    assert there["unclaimed"]["count"] == 1


def test_a_second_stack_prepares_a_house_of_its_own(house, as_staging):
    made, _ = as_staging(setup.open_home)

    assert (made.slug, made.namespace) == ("home-staging", "staging")
    again, _ = as_staging(setup.open_home)
    assert again == made
    assert setup.open_home()[0] == house


def test_a_job_belongs_to_the_namespace_of_its_house(theirs):
    payload = registry["mail.v1"].model_validate(
        {"to": "a@example.com", "subject": "s", "text": "t"}
    )

    services.post_job(payload, house=theirs)

    assert Job.objects.get().namespace == "staging"
