from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models.functions import Now

from tests import drive, factories
from threads import gates
from workflows import authoring, services
from workflows.cli import following, show
from workflows.models import Run
from workflows.services import Start, cancel_run, spawn_run


@pytest.fixture
def flow(house, alice):
    """A workflow that asks, then sleeps."""
    return factories.workflow(
        house, factories.gate("ship", "Ship it?"), factories.sleep()
    )


@pytest.fixture
def asking(flow, alice) -> Run:
    return drive.carry(spawn_run(flow, key="k", start=Start(by=alice)).run)


@pytest.fixture
def failed(asking, alice) -> Run:
    gates.speak(drive.thread_of(asking), person=alice, text="no")
    return drive.carry(asking)


@pytest.fixture
def driven(monkeypatch):
    """Let the waiter's own look carry the run, as workers would beside it."""

    def look(run_id: Any) -> bool:
        drive.carry(Run.objects.get(pk=run_id))
        return True

    monkeypatch.setattr(following, "LOOK_SECONDS", 0)
    monkeypatch.setattr(services, "look", look)


def test_spawn_prints_the_id_and_nothing_else_on_stdout(wf, flow, alice):
    ended = wf("spawn", "nightly")

    run = Run.objects.get()
    assert (ended.status, ended.stdout) == (0, f"{run.pk}\n")
    assert (run.trigger, run.started_by) == ("manual", alice)


def test_spawn_answers_with_one_document(wf, flow, tmp_path):
    file = tmp_path / "payload.json"
    file.write_text('{"branch": "æ"}')

    document = wf("spawn", "nightly", "--payload", f"@{file}", "--json").document

    run = Run.objects.get()
    assert document["id"] == str(run.pk)
    assert (document["joined"], document["new"]) == (False, True)
    assert (document["workflow"], document["state"]) == ("nightly", "pending")
    assert run.payload == {"branch": "æ"}


def test_a_repeated_key_gets_the_existing_run(wf, flow):
    first = wf("spawn", "nightly", "--key", "a", "--json")
    again = wf("spawn", "nightly", "--key", "a", "--json")
    plain = wf("spawn", "nightly", "--key", "a")

    assert again.document["id"] == first.document["id"]
    assert again.document["new"] is False
    assert plain.stdout.strip() == first.document["id"]
    assert "key was used before" in plain.stderr
    assert Run.objects.count() == 1


def test_a_start_joins_the_run_that_has_the_place(wf, house, alice):
    factories.workflow(house, factories.sleep(), overlap="join")

    first = wf("spawn", "nightly", "--json").document
    second = wf("spawn", "nightly", "--json").document

    assert (second["id"], second["joined"]) == (first["id"], True)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("[1]", "payload: must be a JSON object"),
        ('"text"', "payload: must be a JSON object"),
        ("null", "payload: must be a JSON object"),
        ('{"a": NaN}', "payload: holds NaN"),
        ('{"a": Infinity}', "payload: holds Infinity"),
        ('{"a": 1e999}', "payload.a: holds a number that is not finite"),
        ('{"a": ["\\u0000"]}', "payload.a[0]: holds a NUL character"),
        ('{"a": "\\ud800"}', "payload.a: holds half of a surrogate pair"),
        ("{", "payload: is not JSON"),
        ("", "payload: is not JSON"),
        ("@/no/such/file", "payload: cannot read /no/such/file"),
    ],
)
def test_a_bad_payload_is_refused_by_field_and_starts_nothing(
    wf, flow, payload, reason
):
    ended = wf("spawn", "nightly", "--payload", payload, "--json")

    assert (ended.status, ended.stdout) == (1, "")
    assert reason in ended.stderr
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--key", "x" * 201, "key: longer than 200"),
        ("--key", "a\udcff", "key: holds half of a surrogate pair"),
        ("--timeout", "soon", "--timeout: “soon”"),
        ("--timeout", "-1", "--timeout: “-1”"),
        ("--house", "nowhere", "--house: there is no house called “nowhere”"),
        ("--as", "nobody", "--as: there is nobody called “nobody”"),
    ],
)
def test_bad_values_are_refused_with_status_1(wf, flow, option, value, reason):
    ended = wf("spawn", "nightly", f"{option}={value}")

    assert (ended.status, ended.stdout) == (1, "")
    assert reason in ended.stderr
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["spawn"],
        ["spawn", "nightly", "--nonsense"],
        ["spawn", "nightly", "extra"],
        ["spawn", "nightly", "--key"],
        ["reply", "x"],
        ["secret", "set"],
        ["secret"],
        [],
    ],
)
def test_unknown_options_and_missing_arguments_end_with_2(wf, flow, words):
    ended = wf(*words)

    assert (ended.status, ended.stdout) == (2, "")
    assert "usage:" in ended.stderr


def test_a_viewer_and_a_stranger_start_nothing(wf, flow, carol, dave):
    by_viewer = wf("spawn", "nightly", "--as", "carol")
    by_stranger = wf("spawn", "nightly", "--house", "home", "--as", "dave")

    assert by_viewer.status == by_stranger.status == 1
    assert "A viewer can read here" in by_viewer.stderr
    assert "dave is not a member of the house “home”" in by_stranger.stderr
    assert not Run.objects.exists()


def test_waiting_ends_with_0_when_the_run_completed(wf, house, alice, driven):
    factories.workflow(house, factories.sleep(seconds=0))

    ended = wf("spawn", "nightly", "--wait", "--json")

    assert ended.status == 0
    assert ended.document["state"] == "completed"
    assert ended.document["new"] is True
    assert ended.document["steps"][0]["state"] == "completed"


def test_waiting_with_a_known_key_waits_for_the_existing_run(wf, failed):
    ended = wf("spawn", "nightly", "--key", "k", "--wait", "--json")

    assert ended.status == 3
    assert ended.document["id"] == str(failed.pk)
    assert ended.document["failure"]["step"] == "ship"
    assert "rejected by alice" in ended.stderr


def test_waiting_for_a_cancelled_run_ends_with_4(wf, asking, alice):
    cancel_run(asking.pk, by=alice)

    assert wf("spawn", "nightly", "--key", "k", "--wait").status == 4


def test_waiting_no_longer_than_told_ends_with_5(wf, asking):
    ended = wf("spawn", "nightly", "--key", "k", "--wait", "--timeout", "0.3", "--json")

    assert ended.status == 5
    assert ended.document["state"] == "waiting"
    assert "Not ended after 0.3 s" in ended.stderr
    assert "Waiting for anyone in the house to answer" in ended.stderr


def test_following_shows_the_thread_and_ends_with_the_run(wf, house, alice, driven):
    factories.workflow(house, factories.sleep(seconds=0))

    ended = wf("spawn", "nightly", "--follow")

    run = Run.objects.get()
    lines = ended.stdout.splitlines()
    assert lines[0] == str(run.pk)
    assert lines[1].endswith("System: Started by alice.")
    assert lines[-1].endswith("System: Completed.")
    assert "\x1b" not in ended.stdout


def test_a_failed_run_names_the_runs_that_retry_it(wf, failed, alice):
    again = services.retry_run(failed, by=alice).run

    assert f"retried as {again.pk.hex[-8:]}" in wf("show", failed.pk).stdout
    assert f"a retry of {failed.pk.hex[-8:]}" in wf("show", again.pk).stdout


@pytest.mark.parametrize(
    ("kind", "words"),
    [("dispatch_task", "The tests fail."), ("run_command", "make: *** Error 1")],
)
def test_a_result_is_how_an_answer_begins_and_how_output_ends(kind, words):
    output = "\n\nThe tests fail.\n\nmake: *** Error 1\n---\n"

    assert show.result_words({"kind": kind, "result": {"output": output}}) == words


def test_following_with_json_keeps_stdout_to_one_document(wf, house, alice, driven):
    factories.workflow(house, factories.sleep(seconds=0))

    ended = wf("spawn", "nightly", "--follow", "--json")

    assert ended.document["state"] == "completed"
    assert "System: Completed." in ended.stderr


def test_following_a_run_that_failed_is_no_failure_of_the_command(wf, failed):
    ended = wf("show", failed.pk, "--follow")

    assert ended.status == 0
    assert "Failed at ship: rejected by alice" in ended.stdout


def test_leaving_a_followed_run_lets_it_run_and_says_how_to_come_back(
    wf, asking, monkeypatch
):
    def leave(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(following.Watcher, "state", leave)
    ended = wf("spawn", "nightly", "--key", "k", "--follow")

    assert ended.status == 130
    assert f"wf show {asking.pk.hex[-8:]} --follow" in ended.stderr
    asking.refresh_from_db()
    assert asking.state == "waiting"


def test_a_waiter_outlives_a_restart_of_the_database(wf, failed, monkeypatch):
    faults = [OperationalError("the database system is shutting down")] * 2
    read = following.Watcher.state

    def state(watcher: following.Watcher) -> str:
        if faults:
            raise faults.pop()
        return read(watcher)

    monkeypatch.setattr(following.Watcher, "state", state)
    monkeypatch.setattr(following, "TICK_SECONDS", 0.01)
    monkeypatch.setattr("django.db.connection.close", lambda: None)
    ended = wf("spawn", "nightly", "--key", "k", "--wait")

    assert ended.status == 3
    assert ended.stderr.count("The database does not answer; trying again.") == 1


def test_runs_are_listed_newest_first_with_a_reason_and_the_pulse(wf, failed, flow):
    spawn_run(flow)
    document = wf("runs", "--json").document
    shown = wf("runs").stdout

    assert set(document) == {"runs", "conductor", "unclaimed", "notes"}
    newest, oldest = document["runs"]
    assert oldest["id"] == str(failed.pk)
    assert oldest["reason"] == "ship: rejected by alice"
    assert newest["state"] == "pending"
    assert "ship: rejected by alice" in shown
    assert "No conductor has run here yet" in shown
    assert "\x1b" not in shown


def test_work_that_nobody_takes_is_told(wf, flow):
    run = spawn_run(flow).run
    Run.objects.filter(pk=run.pk).update(ready_at=Now() - timedelta(hours=1))

    assert "Nobody has taken 1 run, ready for up to 60 min: is a worker up?" in (
        wf("runs").stdout
    )


def test_the_list_can_be_narrowed(wf, failed, flow):
    waiting = spawn_run(flow).run

    def ids(*options: str) -> list[str]:
        return [line["id"] for line in wf("runs", *options, "--json").document["runs"]]

    assert ids("--failed") == [str(failed.pk)]
    assert ids("--state", "pending") == [str(waiting.pk)]
    assert ids("--workflow", "nightly", "--limit", "1") == [str(waiting.pk)]


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--state=odd", "--state: “odd” is not one of pending, running"),
        ("--limit=0", "--limit: must be a whole number from 1 to 1000"),
        ("--workflow=odd", "There is no workflow called “odd” here"),
    ],
)
def test_a_list_of_what_is_not_there_is_refused(wf, flow, option, reason):
    ended = wf("runs", option)

    assert ended.status == 1
    assert reason in ended.stderr


def test_cancel_settles_a_run_and_says_so_once(wf, asking):
    document = wf("cancel", asking.pk, "--reason", "not today", "--json").document
    again = wf("cancel", asking.pk)

    assert document["state"] == "cancelled"
    assert document["thread"]["entries"][-1]["body"].endswith("not today")
    assert again.status == 1
    assert "has already ended. Cancelled at 2" in again.stderr
    assert "cancelled by alice: not today" in again.stderr


def test_a_run_that_has_ended_cannot_be_cancelled(wf, failed):
    ended = wf("cancel", failed.pk, "--json")

    assert (ended.status, ended.stdout) == (1, "")
    assert "has already ended. Failed at" in ended.stderr


def test_retry_keeps_what_is_done(wf, failed):
    document = wf("retry", failed.pk, "--json").document

    assert document["retry_of"] == str(failed.pk)
    assert document["trigger"] == "retry"
    assert document["id"] != str(failed.pk)


def test_retry_takes_a_step_and_refuses_one_that_is_not_there(wf, failed):
    assert wf("retry", failed.pk, "--from", "ship").status == 0
    ended = wf("retry", failed.pk, "--from", "nowhere")

    assert ended.status == 1
    assert "There is no step called “nowhere”; there are ship, rest." in ended.stderr


def test_a_run_under_way_is_not_retried(wf, asking):
    ended = wf("retry", asking.pk)

    assert ended.status == 1
    assert "has not ended yet" in ended.stderr
    assert Run.objects.count() == 1


def test_why_says_it_in_words(wf, asking):
    document = wf("why", asking.pk, "--json").document

    assert document["why"].startswith(
        "Waiting for anyone in the house to answer “ship”"
    )
    assert document["waiting_for"]["kind"] == "gate"
    assert "Waiting for anyone" in wf("why", asking.pk).stdout


def test_a_run_answers_to_the_end_of_its_id(wf, asking):
    assert wf("show", asking.pk.hex[-8:], "--json").document["id"] == str(asking.pk)


@pytest.mark.parametrize("verb", ["show", "why", "cancel", "retry", "reply", "decide"])
@pytest.mark.parametrize("code", ["nonsense", "01a22f8d-e380-7334-b703-974b69d1b9f1"])
def test_an_unknown_run_is_refused(wf, asking, verb, code):
    more = ["x"] if verb in {"reply", "decide"} else []

    ended = wf(verb, code, *more, "--json")

    assert (ended.status, ended.stdout) == (1, "")
    assert f"There is no run “{code}” here" in ended.stderr


def test_a_run_of_another_house_is_found_by_its_id_and_not_from_here(wf, asking, dave):
    away = factories.workflow(dave.memberships.get().house, factories.sleep())
    dave.memberships.update(role="owner")
    run = spawn_run(away).run

    assert wf("show", run.pk, "--json").document["house"] == "away"
    assert wf("show", run.pk, "--house", "home").status == 1
    assert wf("show", run.pk, "--as", "alice").status == 1
    assert [
        r["id"] for r in wf("runs", "--house", "away", "--json").document["runs"]
    ] == [str(run.pk)]


def test_looking_at_a_run_mends_it(wf, house, alice):
    run = drive.carry(spawn_run(factories.workflow(house, factories.sleep())).run)
    Run.objects.filter(pk=run.pk).update(due_at=Now())

    assert wf("show", run.pk, "--json").document["state"] == "pending"


def test_show_is_the_document_of_the_contract(wf, asking):
    document = wf("show", asking.pk, "--json", "--entries", "1").document
    everything = wf("show", asking.pk, "--json", "--entries", "all").document

    assert [step["state"] for step in document["steps"]] == ["waiting", "pending"]
    assert len(document["thread"]["entries"]) == 1
    assert everything["thread"]["entries_left"] == 0
    assert json.dumps(document).startswith('{"id"')


def test_show_reads_well_where_it_is_piped(wf, failed):
    shown = wf("show", failed.pk).stdout

    assert shown.startswith(f"nightly  failed  {failed.pk}\n")
    assert "Failed at ship: rejected by alice" in shown
    assert "attempt 1: settled" in shown
    assert f"event wf.step.done:{failed.pk}:0" in shown
    assert "System: Ship it?" in shown
    assert "\x1b" not in shown


def test_a_paused_start_says_that_it_waits(wf, flow):
    authoring.pause_workflow(flow)

    assert "begins when it is resumed" in wf("spawn", "nightly").stderr


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (
            {"run": "01a23066-0000", "state": "completed", "result": {}},
            "066-0000 completed",
        ),
        ({"event": "deploy", "payload": {"n": 1}, "id": 3}, 'deploy: {"n": 1}'),
        ({"event": "deploy", "payload": None}, "deploy"),
        ({"result": {"rows": [1]}}, '{"rows": [1]}'),
    ],
)
def test_a_result_is_told_in_the_words_of_its_kind(result, words):
    assert show.result_words({"kind": "any", "result": result}) == words
