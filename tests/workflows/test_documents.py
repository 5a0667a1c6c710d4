from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from tests import drive, factories
from threads import gates
from threads import services as thread_services
from threads.models import Pulse
from workflows import access, authoring, documents, why
from workflows.engine import advance
from workflows.exceptions import NotFound
from workflows.models import Attempt, Run, Slot
from workflows.services import Start, cancel_run, retry_run, spawn_run

RUN_KEYS = {
    "id", "workflow", "house", "state", "trigger", "key", "payload", "attempts",
    "created_at", "started_at", "finished_at", "due_at", "failure", "retry_of",
    "retries", "waiting_for", "steps", "attempt_log", "events", "thread",
}  # fmt: skip
STEP_KEYS = {
    "position", "iteration", "name", "kind", "state", "attempts", "started_at",
    "finished_at", "instruction", "result", "error", "progress", "by_hand", "iterations", "times",
}  # fmt: skip


@pytest.fixture
def asking(house, alice) -> Run:
    """A run that waits at its first step, a gate; a sleep follows."""
    flow = factories.workflow(
        house, factories.gate("ship", "Ship it?", deadline="2d"), factories.sleep()
    )
    run = spawn_run(flow, payload={"a": 1}, key="k", start=Start(by=alice)).run
    return drive.carry(run)


def shown(run: Run, **how) -> dict[str, Any]:
    fresh = Run.objects.select_related("workflow", "house").get(pk=run.pk)
    return documents.run(fresh, **how)


def test_a_run_reads_as_the_contract_says(asking):
    document = shown(asking)

    assert set(document) >= RUN_KEYS
    assert document["workflow"] == "nightly"
    assert document["house"] == "home"
    assert (document["state"], document["trigger"]) == ("waiting", "manual")
    assert (document["payload"], document["key"]) == ({"a": 1}, "k")
    assert document["created_at"].endswith("Z")
    assert document["finished_at"] is None
    assert document["attempts"] == 1
    assert [a["ended"] for a in document["attempt_log"]] == [None]
    assert document["waiting_for"]["kind"] == "gate"
    assert document["waiting_for"]["until"].endswith("Z")


def test_steps_not_begun_are_there_and_pending(asking):
    gate, rest = shown(asking)["steps"]

    assert set(gate) == set(rest) == STEP_KEYS
    assert (gate["state"], gate["attempts"], gate["instruction"]) == (
        "waiting",
        1,
        "Ship it?",
    )
    assert (rest["name"], rest["kind"], rest["state"]) == ("rest", "sleep", "pending")
    assert (rest["position"], rest["iteration"], rest["attempts"]) == (1, 1, 0)
    assert rest["started_at"] is rest["result"] is rest["error"] is None


def test_an_answered_gate_leaves_its_result_and_its_event(asking, alice):
    gates.speak(drive.thread_of(asking), person=alice, text="yes")
    drive.carry(asking)

    document = shown(asking)

    assert document["steps"][0]["result"]["approved"] is True
    assert [event["name"] for event in document["events"]] == [
        f"wf.step.done:{asking.pk}:0"
    ]
    assert document["waiting_for"]["kind"] == "time"
    assert document["due_at"] == document["waiting_for"]["until"]
    last = document["thread"]["entries"][-1]
    assert last["author"] == {"kind": "system", "name": "System"}


def test_a_thread_shows_its_last_entries_and_how_many_came_before(asking):
    for number in range(5):
        thread_services.append_entry(drive.thread_of(asking), f"line {number}")

    few, every = shown(asking, entries=2), shown(asking, entries=None)

    assert [e["body"] for e in few["thread"]["entries"]] == ["line 3", "line 4"]
    assert few["thread"]["entries_left"] == len(every["thread"]["entries"]) - 2
    assert every["thread"]["entries_left"] == 0
    assert [e["number"] for e in every["thread"]["entries"]] == list(range(1, 8))


def test_a_released_attempt_is_in_the_log_and_not_in_the_count(asking):
    Attempt.objects.filter(run=asking).update(ended="released", ended_at=Now())
    Attempt.objects.create(run=asking, number=2, holder=1, ended="")

    document = shown(asking)

    assert document["attempts"] == 1
    assert [a["ended"] for a in document["attempt_log"]] == ["released", None]


def test_a_worker_that_died_at_a_command_counts_as_an_attempt_of_its_step(house, alice):
    flow = factories.workflow(house, factories.gate())
    run = drive.carry(spawn_run(flow, start=Start(by=alice)).run)
    run.steps.update(crashes=2)

    assert shown(run)["steps"][0]["attempts"] == 3


def test_lines_give_one_reason_each(house, alice, asking):
    cancelled = spawn_run(asking.workflow, start=Start(by=alice)).run
    cancel_run(cancelled.pk, by=alice, reason="not today")
    authoring.pause_workflow(asking.workflow)
    held = spawn_run(asking.workflow, start=Start(by=alice)).run

    lines = {line["id"]: line for line in documents.runs(alice)["runs"]}

    assert lines[str(asking.pk)]["reason"] == "waiting for anyone to answer “ship”"
    assert lines[str(cancelled.pk)]["reason"] == "cancelled by alice: not today"
    assert lines[str(held.pk)]["reason"] == "not started: the workflow is paused"
    assert lines[str(held.pk)]["short"] == held.pk.hex[-8:]


def fail(run: Run, *, step: str, reason: str) -> None:
    Run.objects.filter(pk=run.pk).update(
        state="failed",
        failure={"step": step, "reason": reason},
        finished_at=Now(),
    )


def test_a_failed_run_says_why_in_the_list_and_can_be_found_there(alice, asking):
    failed = spawn_run(asking.workflow, start=Start(by=alice)).run
    fail(failed, step="ship", reason="rejected by alice")

    (line,) = documents.runs(alice, failed=True)["runs"]

    assert line["id"] == str(failed.pk)
    assert line["reason"] == "ship: rejected by alice"


def test_lists_can_be_narrowed(house, alice, asking):
    other = factories.workflow(house, factories.sleep(), slug="other")
    run = spawn_run(other, start=Start(by=alice)).run

    def found(**by) -> list[str]:
        return [line["id"] for line in documents.runs(alice, **by)["runs"]]

    assert found() == [str(run.pk), str(asking.pk)]
    assert found(state="waiting") == [str(asking.pk)]
    assert found(workflow="other") == [str(run.pk)]
    assert found(limit=1) == [str(run.pk)]


def test_nobody_reads_the_runs_and_workflows_of_another_house(asking, dave):
    assert documents.runs(dave)["runs"] == []
    assert documents.workflows(dave) == []
    with pytest.raises(NotFound):
        access.get_run(dave, asking.pk)


def test_lists_ask_the_database_a_fixed_number_of_times(house, alice, asking):
    def queries(read) -> int:
        with CaptureQueriesContext(
            connection,
        ) as caught:
            read()
        return len(caught)

    def both() -> tuple[int, int]:
        return (
            queries(lambda: documents.runs(alice)),
            queries(lambda: documents.workflows(alice)),
        )

    few = both()
    for number in range(4):
        flow = factories.workflow(house, factories.gate(), slug=f"more-{number}")
        drive.carry(spawn_run(flow, start=Start(by=alice)).run)

    assert both() == few


def test_ready_work_that_nobody_takes_is_counted(house, alice):
    flow = factories.workflow(house, factories.sleep())
    run = spawn_run(flow, start=Start(by=alice)).run
    assert documents.runs(alice)["unclaimed"]["count"] == 0

    Run.objects.filter(pk=run.pk).update(ready_at=Now() - timedelta(seconds=90))
    unclaimed = documents.runs(alice)["unclaimed"]

    assert (unclaimed["runs"], unclaimed["turns"], unclaimed["count"]) == (1, 0, 1)
    assert 90 <= unclaimed["oldest_seconds"] < 120


@pytest.mark.parametrize(
    ("fields", "alive"),
    [
        ({}, True),
        ({"dead_at": Now()}, False),
        ({"locked": True}, False),  # its lock is gone: it was killed
        ({"seen_at": Now() - timedelta(minutes=5)}, False),
    ],
)
def test_the_pulse_of_the_conductor_is_told(house, alice, fields, alive):
    Pulse.objects.create(
        namespace="default", role="conductor", name="c", host="h", process=1,
        version="1", **fields,
    )  # fmt: skip

    pulse = documents.runs(alice)["conductor"]

    assert pulse["alive"] is alive
    assert ("is up" in pulse["words"]) is alive
    assert pulse["seen_at"].endswith("Z")


def test_a_house_without_a_conductor_says_so(house, alice):
    pulse = documents.runs(alice)["conductor"]

    assert (pulse["alive"], pulse["seen_at"], pulse["seconds"]) == (False, None, None)
    assert "manage.py up" in pulse["words"]


def test_workflows_say_when_and_what_last(house, alice, asking):
    factories.workflow(house, factories.sleep(), slug="daily", schedule="0 6 * * *")

    daily, nightly = documents.workflows(alice)

    assert (daily["schedule"], daily["cron"]) == ("At 06:00, every day", "0 6 * * *")
    assert daily["next_slot_at"].endswith("T06:00:00Z")
    assert daily["last_run"] is None
    assert (nightly["schedule"], nightly["next_slot_at"]) == (None, None)
    assert nightly["last_run"]["id"] == str(asking.pk)
    assert nightly["paused"] is False


def test_the_ledger_looks_ahead_and_back(house, alice, asking):
    flow = factories.workflow(
        house, factories.sleep(), slug="leap", schedule="0 0 29 2 *"
    )
    Slot.objects.create(
        workflow=flow, slot_at=why.now(), outcome="skipped", reason="paused"
    )
    ledger = documents.slots(flow, next=100, last=5)

    assert len(ledger["next"]) == 100
    assert ledger["next"][0]["slot"].endswith("-02-29T00:00:00Z")
    (line,) = ledger["last"]
    assert (line["outcome"], line["reason"], line["run"]) == ("skipped", "paused", None)
    assert documents.slots(asking.workflow) == {"next": [], "last": []}


@pytest.fixture
def working(house, alice) -> Run:
    """A run whose command a worker has taken and has not ended."""
    steps = (factories.command("checks", "make test"), factories.command("more"))
    run = spawn_run(factories.workflow(house, *steps), start=Start(by=alice)).run
    advance.advance(pool="steps", holder=drive.holder(), hint=run.pk)
    return run


def test_a_step_at_work_tells_what_it_wrote_so_far(working):
    assert [s["progress"] for s in shown(working)["steps"]] == [None, None]
    turn = drive.begun_turn(working)
    assert [s["progress"] for s in shown(working)["steps"]] == ["", None]

    drive.write(turn, "first\nse", "cond\n")
    drive.write(turn, "I look further", kind="model", move="call")
    drive.write(turn, "I am done", kind="model", move="final")
    drive.write(turn, kind="call", call=1)
    told = shown(working)["steps"][0]["progress"]
    drive.write(turn, *["x" * 5_000] * 3)

    assert told == "first\nsecond\nI look further\n"
    assert shown(working)["steps"][0]["progress"] == "x" * 8_000


def test_words_of_a_message_that_broke_off_are_not_shown_before_those_of_the_next(
    working,
):
    turn = drive.begun_turn(working)
    drive.write(turn, "Half of", draft=turn.attempts - 1)
    drive.write(turn, "All of", " it", draft=turn.attempts)
    told = shown(working)["steps"][0]["progress"]
    drive.write(turn, "All of it.", kind="model", move="said")

    assert told == "All of it"
    assert shown(working)["steps"][0]["progress"] == "All of it.\n"


def test_a_step_that_has_ended_has_no_progress_beside_its_result(working):
    turn = drive.begun_turn(working)
    drive.write(turn, "so far\n")

    thread_services.settle_turn(
        turn,
        thread_services.Ending("succeeded", "", "so far", {"output": "so far"}),
        guard=thread_services.held_by(turn),
    )

    assert [s["progress"] for s in shown(working)["steps"]] == [None, None]


def test_a_longer_log_costs_no_further_query(working):
    def queries() -> int:
        with CaptureQueriesContext(connection) as caught:
            shown(working)
        return len(caught)

    turn = drive.begun_turn(working)
    few = queries()
    drive.write(turn, *["line\n"] * 50)

    assert queries() == few


def test_a_failed_run_tells_by_which_runs_it_was_retried(alice, asking):
    gates.speak(drive.thread_of(asking), person=alice, text="no")
    drive.carry(asking)
    assert shown(asking)["retries"] == []

    again = [retry_run(asking, by=alice).run for _ in range(2)]

    assert shown(asking)["retries"] == [str(run.pk) for run in again]
    assert shown(again[0])["retry_of"] == str(asking.pk)
    assert shown(again[0])["retries"] == []
