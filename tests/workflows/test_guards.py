"""What the schema itself refuses, whatever the code above it does (A31, B9, B10)."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, transaction

from tests import drive, factories, hands
from threads import envelopes, gates, services, tenancy
from threads.models import Bot, Entry, Gate, GateAnswer, Job, Thread, TurnMessage
from threads.runtime import jobs
from workflows.exceptions import BadWorkflow
from workflows.models import Checkpoint, Event, Plan, Workflow
from workflows.services import spawn_run

THREAD = (
    "INSERT INTO threads_thread (id, house_id, title, kind, bot_id, trigger_mode,"
    " last_number) VALUES (gen_random_uuid(), %s, 'odd', %s, %s, %s, 0)"
)
SETTLE = (
    "UPDATE workflows_run SET state = 'completed', finished_at = now(), due_at = NULL,"
    " holder = NULL WHERE id = %s"
)


def refused(statement: str, *params: Any, words: str) -> None:
    with pytest.raises(DatabaseError, match=words), transaction.atomic():
        hands.sql(statement, *params)


def update(table: str, change: str, *params: Any, words: str) -> None:
    refused(f"UPDATE {table} SET {change}", *params, words=words)  # noqa: S608


def settle_at_once(run):
    """Settle past the services and look at what is looked at when committing."""
    with transaction.atomic():
        hands.sql(SETTLE, run.pk)
        hands.sql("SET CONSTRAINTS ALL IMMEDIATE")


@pytest.fixture
def bot(house):
    return Bot.objects.get(house=house)


@pytest.fixture
def done(house, alice):
    """A completed run of a command and a gate, with all the rows they leave."""
    flow = factories.workflow(house, factories.command("build"), factories.gate("ship"))
    run = hands.go_on(spawn_run(flow).run)
    turn = hands.take(run)
    services.log_message(turn, kind="output", body={"text": "…"})
    hands.end(turn, output="built")
    hands.go_on(run)
    gates.speak(drive.thread_of(run), person=alice, text="yes")
    return hands.go_on(run)


def test_a_runs_thread_has_a_bot(house):
    refused(THREAD, house.pk, "run", None, "always", words="run_thread_has_its_bot")


@pytest.mark.parametrize("mode", ["mention", "ambient"])
def test_a_runs_bot_always_replies(house, bot, mode):
    refused(THREAD, house.pk, "run", bot.pk, mode, words="run_thread_has_its_bot")


@pytest.mark.parametrize("change", ["bot_id = NULL", "bot_id = %s", "kind = 'room'"])
def test_a_runs_thread_keeps_its_bot(house, done, change):
    other = Bot.objects.create(house=house, handle="other", name="Other")
    params = [other.pk] if "%s" in change else []

    update("threads_thread", change, *params, words="stays bound to its bot")


def test_a_room_may_do_without_a_bot(house):
    hands.sql(THREAD, house.pk, "room", None, "mention")

    assert Thread.objects.get().bot is None


def test_no_other_bot_works_in_a_runs_thread(house, bot):
    other = Bot.objects.create(house=house, handle="other", name="Other")
    run = spawn_run(factories.workflow(house, factories.gate("ship"))).run
    turn = (
        "INSERT INTO threads_turn (id, house_id, namespace, thread_id, bot_id, what,"
        " instruction, spec, state, attempts, crashes, faults, pool, needs, root, key,"
        " subject, reason) VALUES (gen_random_uuid(), %s, 'default', %s, %s, 'prompt',"
        " '', '{}', 'pending', 0, 0, 0, 'turns', '', '', '', '', '')"
    )
    thread = drive.thread_of(run)

    refused(turn, house.pk, thread, other.pk, words="only the bound bot")
    hands.sql(turn, house.pk, thread, bot.pk)


def test_a_turn_cannot_be_handed_to_another_bot(house, bot):
    other = Bot.objects.create(house=house, handle="other", name="Other")
    hands.go_on(spawn_run(factories.workflow(house, factories.command("build"))).run)

    refused("UPDATE threads_turn SET bot_id = %s", other.pk, words="only the bound bot")


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("workflows_run", "state = 'pending', finished_at = NULL"),
        ("workflows_run", "payload = '{}'"),
        ("workflows_checkpoint", "result = NULL"),
        ("threads_turn", "state = 'pending'"),
        ("threads_turn", "reason = 'no'"),
        ("threads_gate", "outcome = 'rejected'"),
        ("threads_gate", "state = 'open', outcome = '', closed_at = NULL"),
    ],
)
def test_what_has_settled_is_never_rewritten(done, table, change):
    update(table, change, words="has settled as")


def test_a_job_that_ended_is_never_rewritten(house, monkeypatch):
    monkeypatch.setitem(jobs.handlers, "mail.v1", lambda mail: None)
    services.post_job(envelopes.Mail(to="a@example.com", subject="x", text="y"))
    assert jobs.work_off(holder=drive.holder("worker-jobs")) == 1
    assert Job.objects.get().state == "succeeded"

    refused("UPDATE threads_job SET state = 'pending'", words="has settled as")


@pytest.mark.parametrize(
    ("model", "change"),
    [
        (Entry, "body = 'x'"),
        (TurnMessage, "kind = 'call'"),
        (GateAnswer, "answer = 'x'"),
    ],
)
def test_what_was_said_stays_said(done, model, change):
    table = model._meta.db_table
    assert model.objects.exists()

    update(table, change, words="append-only")
    refused(f"DELETE FROM {table}", words="append-only")  # noqa: S608


def test_only_retention_may_delete_what_was_said(done):
    hands.sql("SET LOCAL threadwork.retention = 'on'")

    refused("UPDATE threads_entry SET body = ''", words="append-only")
    assert hands.sql("DELETE FROM threads_entry") > 0


def test_a_workflow_is_never_deleted(house):
    flow = factories.workflow(house, factories.gate("ship"))

    refused("DELETE FROM workflows_workflow", words="never changes")
    with pytest.raises(DatabaseError), transaction.atomic():
        Workflow.objects.filter(pk=flow.pk).delete()


def test_a_plan_and_an_event_never_change(done):
    assert Plan.objects.exists()
    assert Event.objects.exists()

    refused("UPDATE workflows_plan SET steps = '[]'", words="never changes")
    refused("UPDATE workflows_event SET payload = '{}'", words="never changes")


def test_a_run_cannot_settle_with_an_open_gate(house):
    run = hands.go_on(spawn_run(factories.workflow(house, factories.gate("ship"))).run)
    hands.sql("UPDATE workflows_runthread SET awaiting = false")

    with pytest.raises(IntegrityError, match="gate or a wait"):
        settle_at_once(run)


def test_a_run_cannot_settle_with_an_open_wait(house):
    run = hands.go_on(
        spawn_run(factories.workflow(house, factories.command("build"))).run
    )

    with pytest.raises(IntegrityError, match="gate or a wait"):
        settle_at_once(run)


@pytest.mark.django_db(transaction=True)
def test_that_is_looked_at_when_the_transaction_commits(house):
    run = hands.go_on(spawn_run(factories.workflow(house, factories.gate("ship"))).run)

    with pytest.raises(IntegrityError, match="gate or a wait"):
        settle_alone(run)

    run.refresh_from_db()
    assert run.state == "waiting"
    assert Gate.objects.get().state == "open"


def settle_alone(run):
    with transaction.atomic():
        hands.sql(SETTLE, run.pk)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("state = 'running'", "run_running_has_holder"),
        ("state = 'sleeping', due_at = NULL", "run_asleep_will_wake"),
        ("state = 'failed', finished_at = now()", "run_failed_says_why"),
        ("state = 'completed'", "run_settled_holds_nothing"),
    ],
)
def test_a_run_is_in_a_state_that_makes_sense(house, change, name):
    spawn_run(factories.workflow(house, factories.gate("ship")))

    update("workflows_run", change, words=name)


def test_a_step_is_recorded_once(done):
    row = Checkpoint.objects.first()
    assert row is not None
    row.pk = None

    with pytest.raises(IntegrityError, match="step_once"), transaction.atomic():
        row.save(force_insert=True)


def test_slugs_may_be_used_again_after_a_workflow_was_deleted(house):
    first = factories.workflow(house, factories.gate("ship"))
    hands.sql("UPDATE workflows_workflow SET deleted_at = now()")

    assert factories.workflow(house, factories.gate("ship")).pk != first.pk


def test_another_houses_bot_is_not_found_by_name(house):
    away = tenancy.open_house("away", name="Away")
    Bot.objects.create(house=away, handle="theirs", name="Theirs")

    with pytest.raises(
        BadWorkflow, match="no bot called “theirs” here; there is runner"
    ):
        factories.workflow(house, factories.gate("ship"), bot="theirs")
