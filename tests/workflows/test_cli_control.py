from __future__ import annotations

import pytest

from tests import drive, factories, hands
from workflows.models import Event, Run, Workflow
from workflows.services import cancel_run, pause_run, spawn_run


@pytest.fixture
def flow(house, alice):
    return factories.workflow(house, factories.gate("ship"), factories.gate("tell"))


@pytest.fixture
def asking(flow) -> Run:
    return drive.carry(spawn_run(flow, payload={"n": 1}).run)


@pytest.fixture
def failed(house, alice) -> Run:
    steps = factories.command("build", "exit 3"), factories.gate("tell")
    return drive.carry(spawn_run(factories.workflow(house, *steps)).run)


def test_a_run_is_paused_and_resumed_by_its_short_id(wf, asking):
    short = asking.pk.hex[-8:]

    ended = wf("pause", short, "--reason", "fire drill")

    assert (ended.status, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"Paused {short}. What runs now goes on")
    assert "Paused by alice" in wf("why", short).stdout
    assert "fire drill" in wf("runs").stdout
    ended = wf("resume", short)
    assert ended.status == 0
    assert "Waiting for anyone in the house to answer “ship”" in ended.stdout
    assert drive.bodies(asking)[-2:] == [
        "Paused by alice: fire drill",
        "Resumed by alice.",
    ]


def test_a_paused_run_says_so_in_its_document(wf, asking):
    paused = wf("pause", asking.pk, "--reason", "drill", "--json").document["paused"]

    assert (paused["by"], paused["reason"]) == ("alice", "drill")
    assert paused["since"].endswith("Z")
    assert wf("resume", asking.pk, "--json").document["paused"] is None


def test_a_workflow_is_still_paused_by_its_slug(wf, flow):
    assert wf("pause", "nightly", "--json").document["paused"] is True
    assert Workflow.objects.get().paused
    assert wf("resume", "nightly").stdout == "Resumed nightly.\n"


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_what_is_neither_workflow_nor_run_is_refused(wf, flow, verb):
    ended = wf(verb, "nigtly")

    assert ended.status == 1
    assert (
        "There is no workflow called “nigtly” here; there is nightly." in ended.stderr
    )
    assert "Nor is there such a run" in ended.stderr


def test_resuming_what_is_not_paused_is_refused(wf, asking):
    ended = wf("resume", asking.pk)

    assert (ended.status, ended.stderr) == (1, "The run is not paused.\n")


def test_what_has_ended_is_not_paused_and_says_who_and_when(wf, asking, bob):
    cancel_run(asking.pk, by=bob)

    ended = wf("pause", asking.pk)

    assert ended.status == 1
    assert "has already ended. Cancelled at" in ended.stderr
    assert "by bob" in ended.stderr


def test_a_step_is_skipped_with_a_reason(wf, asking):
    ended = wf("skip", asking.pk, "--reason", "asked by phone", "--step", "ship")

    assert ended.status == 0
    assert drive.steps(drive.carry(asking))[0] == ("ship", "skipped")
    step = wf("show", asking.pk, "--json").document["steps"][0]
    kept = {name: step["by_hand"][name] for name in ("state", "by", "reason")}
    assert kept == {"state": "skipped", "by": "alice", "reason": "asked by phone"}
    assert "Skipped ship by alice: asked by phone" in wf("show", asking.pk).stdout


def test_a_reason_is_asked_for(wf, asking):
    assert wf("skip", asking.pk).status == 2
    ended = wf("skip", asking.pk, "--reason", " ")
    assert (ended.status, ended.stderr.partition(":")[0]) == (1, "Say why")


def test_a_step_that_is_not_meant_is_not_skipped(wf, asking):
    ended = wf("skip", asking.pk, "--reason", "x", "--step", "tell")

    assert ended.status == 1
    assert "stands at “ship”" in ended.stderr


def test_a_result_is_set_from_the_line_or_from_a_file(wf, asking, tmp_path):
    file = tmp_path / "result.json"
    file.write_text('{"reply": "yes, by phone"}')

    ended = wf("set", asking.pk, f"@{file}", "--reason", "by phone", "--json")

    result = ended.document["steps"][0]["result"]
    assert (result["approved"], result["reply"]) == (True, "yes, by phone")
    assert ended.document["steps"][0]["by_hand"]["state"] == "completed"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ("{", "is not JSON"),
        ('{"approved": NaN}', "NaN"),
        ('{"reply": "\\u0000"}', "NUL"),
        ('{"reply": 5}', "result.reply: must be text"),
        ("5", "must be a JSON object"),
    ],
)
def test_a_bad_result_is_refused_by_name(wf, asking, result, words):
    ended = wf("set", asking.pk, result, "--reason", "x")

    assert (ended.status, ended.stdout) == (1, "")
    assert words in ended.stderr
    assert drive.open_gate(asking).state == "open"


def test_a_member_pauses_and_an_author_ends_steps(wf, asking, bob):
    assert wf("pause", asking.pk, "--as", "bob").status == 0

    ended = wf("skip", asking.pk, "--reason", "x", "--as", "bob")

    assert ended.status == 1
    assert "Only authors and owners" in ended.stderr


def test_a_viewer_pauses_nothing(wf, asking, carol):
    assert wf("pause", asking.pk, "--as", "carol").status == 1
    assert Run.objects.get().paused_at is None


def test_a_step_of_a_settled_run_points_to_the_retry(wf, failed):
    ended = wf("skip", failed.pk, "--reason", "x")

    assert ended.status == 1
    assert "wf retry RUN --skip" in ended.stderr


def test_a_retry_skips_the_step_that_failed(wf, failed):
    ended = wf("retry", failed.pk, "--skip", "--reason", "known", "--json")

    assert ended.status == 0
    assert ended.document["retry_of"] == str(failed.pk)
    assert ended.document["steps"][0]["by_hand"]["state"] == "skipped"
    again = Run.objects.get(pk=ended.document["id"])
    assert drive.steps(drive.carry(again)) == [
        ("build", "skipped"),
        ("tell", "waiting"),
    ]


def test_a_retry_sets_what_the_failing_step_leaves(wf, failed):
    result = '{"output": "built at home"}'

    ended = wf("retry", failed.pk, "--result", result, "--reason", "known")

    assert ended.status == 0
    again = Run.objects.get(pk=ended.stdout.strip())
    assert again.steps.filter(result__output="built at home").exists()
    assert ended.stderr == "A new run; it keeps nothing.\n"


def test_a_retry_takes_another_payload(wf, failed, tmp_path):
    file = tmp_path / "payload.json"
    file.write_text('{"n": 2}')

    ended = wf("retry", failed.pk, "--payload", f"@{file}", "--json")

    assert ended.document["payload"] == {"n": 2}
    assert (
        "The payload was changed to"
        in drive.bodies(Run.objects.latest("created_at"))[0]
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--skip"], "Say why"),
        (["--reason", "x"], "--reason: goes with"),
        (["--payload", "[1]"], "payload: must be a JSON object"),
        (["--result", "{", "--reason", "x"], "result is not JSON"),
    ],
)
def test_a_retry_that_is_asked_for_wrongly_starts_nothing(wf, failed, options, words):
    ended = wf("retry", failed.pk, *options)

    assert ended.status == 1
    assert words in ended.stderr.replace("result: is", "result is")
    assert Run.objects.count() == 1


def test_an_event_is_emitted_and_names_whom_it_woke(wf, house, alice):
    wait = {"name": "wait", "kind": "wait_for_event", "event": "deployed"}
    run = hands.go_on(spawn_run(factories.workflow(house, wait)).run)

    said = wf("emit", "deployed", "--payload", '{"n": 1}', "--json").document

    assert said == {
        "name": "deployed",
        "key": "",
        "payload": {"n": 1},
        "emitted_at": said["emitted_at"],
        "new": True,
        "woken": [str(run.pk)],
    }
    assert drive.carry(run).state == "completed"


def test_an_event_with_a_known_key_is_the_first_one(wf, house, alice):
    wf("emit", "deployed", "--key", "b7", "--payload", '{"n": 1}')

    ended = wf("emit", "deployed", "--key", "b7", "--payload", '{"n": 2}')

    assert ended.status == 0
    assert "it stands" in ended.stdout
    assert Event.objects.get().payload == {"n": 1}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["wf.step.done:x"], "kept for steps"),
        ([" "], "must be 1 to 200 characters"),
        (["deployed", "--payload", "5"], "payload: must be a JSON object"),
        (["deployed", "--payload", "{"], "payload: is not JSON"),
        (["deployed", "--key", "k" * 201], "key: longer than"),
    ],
)
def test_a_bad_event_is_refused_and_not_kept(wf, house, alice, arguments, words):
    ended = wf("emit", *arguments)

    assert (ended.status, ended.stdout) == (1, "")
    assert words in ended.stderr
    assert not Event.objects.exists()


def test_a_viewer_emits_nothing(wf, house, carol):
    factories.member(house, "alice", role="owner")
    assert wf("emit", "deployed", "--as", "carol").status == 1


def test_what_a_run_waits_for_is_said_in_words(wf, house, alice):
    wait = {
        "name": "wait",
        "kind": "wait_for_event",
        "event": "deployed",
        "key": "b7",
        "timeout": "2h",
    }
    run = hands.go_on(spawn_run(factories.workflow(house, wait)).run)

    waits = wf("show", run.pk, "--json").document["waiting_for"]

    assert waits["kind"] == "event"
    assert waits["words"].startswith("Waiting for the event deployed with the key b7")
    assert ", until " in waits["words"]
    assert waits["until"]
    assert "waiting for the event deployed" in wf("runs").stdout


def test_a_parent_and_its_child_name_each_other(wf, house, alice):
    factories.workflow(house, factories.gate(), slug="inner")
    start = {"name": "child", "kind": "run_workflow", "workflow": "inner"}
    flow = factories.workflow(house, start, slug="outer", deadline="2h")
    run = hands.go_on(spawn_run(flow).run)
    child = Run.objects.get(parent=run)

    outer = wf("show", run.pk, "--json").document
    inner = wf("show", child.pk, "--json").document

    assert outer["children"] == [str(child.pk)]
    assert inner["parent"] == str(run.pk)
    assert outer["deadline_at"].endswith("Z")
    assert outer["waiting_for"]["words"].startswith(
        f"Waiting for run {child.pk} (inner, waiting) since"
    )
    assert f"waiting for run {child.pk.hex[-8:]} to end" in wf("runs").stdout


def test_a_run_between_iterations_says_which_comes_when(wf, house, alice):
    repeat = {"times": 10, "delay": 3600}
    step = factories.command("check", "exit 1", repeat=repeat, on_error="continue")
    run = drive.carry(spawn_run(factories.workflow(house, step)).run)

    waits = wf("show", run.pk, "--json").document["waiting_for"]

    assert waits["kind"] == "time"
    assert waits["words"].startswith("“check” runs again at")
    assert waits["words"].endswith("(iteration 2 of 10).")
    assert "“check” runs again at" in wf("runs").stdout


def test_a_run_being_stopped_for_its_deadline_says_so(wf, house, alice):
    flow = factories.workflow(house, factories.command("work"), deadline="1h")
    run = hands.go_on(spawn_run(flow).run)
    hands.take(run)
    pause_run(run.pk)
    hands.sql("UPDATE workflows_run SET deadline_at = now() - interval '1 second'")

    words = wf("why", run.pk).stdout

    assert "the run has taken longer than 1 h" in words, words
    assert words.startswith("Stopping since")
