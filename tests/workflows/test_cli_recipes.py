from __future__ import annotations

import json

import pytest
import yaml

from tests import factories
from workflows import authoring
from workflows.models import Run, Slot, Workflow
from workflows.services import Start, spawn_run

GOOD = """
slug: nightly
schedule: "0 6 * * *"
steps:
  - {name: rest, kind: sleep, seconds: 60}
  - {name: ship, kind: human_gate, prompt: "Ship it?"}
"""

REFUSED = {
    "an unknown key": (
        "{slug: a, steps: [{name: x, kind: run_command, comand: ls, command: ls}]}",
        "steps[0].comand",
        "did you mean “command”?",
    ),
    "a doubled step name": (
        (
            "{slug: a, steps: [{name: x, kind: sleep, seconds: 1},"
            " {name: x, kind: sleep, seconds: 1}]}"
        ),
        "steps[1].name",
        "another step is called “x”",
    ),
    "an unknown kind": (
        "{slug: a, steps: [{name: x, kind: dance}]}",
        "steps[0].kind",
        "must be one of",
    ),
    "an impossible date": (
        "{slug: a, schedule: '0 0 31 2 *', steps: [{name: x, kind: sleep, seconds: 1}]}",
        "schedule",
        "",
    ),
    "no steps": ("{slug: a, steps: []}", "steps", "must not be empty"),
    "a malformed placeholder": (
        "{slug: a, steps: [{name: x, kind: run_command, command: 'ls {{payload.a'}]}",
        "steps[0].command",
        "",
    ),
    "a NUL": (
        '{slug: a, steps: [{name: x, kind: run_command, command: "ls \\0"}]}',
        "steps[0].command",
        "holds a NUL character",
    ),
    "half a surrogate": (
        (
            '{"slug": "a", "steps": [{"name": "x", "kind": "run_command",'
            ' "command": "ls \\ud800"}]}'
        ),
        "steps[0].command",
        "holds half of a surrogate pair",
    ),
    "a number that is none": (
        "{slug: a, steps: [{name: x, kind: sleep, seconds: .nan}]}",
        "steps[0].seconds",
        "",
    ),
}


@pytest.fixture
def recipe(tmp_path):
    def write(words: str | bytes) -> str:
        path = tmp_path / "recipe.yaml"
        path.write_bytes(words.encode() if isinstance(words, str) else words)
        return str(path)

    return write


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_file_is_refused_by_field_and_nothing_is_written(wf, recipe, alice, case):
    words, field, reason = REFUSED[case]

    ended = wf("apply", recipe(words), "--json")

    assert (ended.status, ended.stdout) == (1, "")
    assert f"{field}: " in ended.stderr
    assert reason in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not Workflow.objects.exists()


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"slug: \xff\xfe", "is not UTF-8 text"),
        (b"slug: a\x00b", "cannot be kept"),
        (b"- a list", "is not a mapping"),
        (b"slug: [", "line"),
        (b"", "is not a mapping"),
    ],
)
def test_what_is_no_file_of_ours_is_refused(wf, recipe, alice, raw, reason):
    ended = wf("apply", recipe(raw))

    assert ended.status == 1
    assert reason in ended.stderr
    assert not Workflow.objects.exists()


def test_a_file_that_is_not_there_is_named(wf, alice):
    ended = wf("apply", "/nowhere/at/all.yaml")

    assert ended.status == 1
    assert "/nowhere/at/all.yaml" in ended.stderr
    assert "No such file" in ended.stderr


def test_every_problem_is_told_at_once(wf, recipe, alice):
    ended = wf("apply", recipe("{slug: 'a b', steps: [{name: '', kind: sleep}]}"))

    for field in ("slug: ", "steps[0].name: "):
        assert field in ended.stderr


def test_apply_says_what_changed(wf, recipe, alice):
    created = wf("apply", recipe(GOOD))
    again = wf("apply", recipe(GOOD))
    changed = wf("apply", recipe(GOOD.replace("0 6", "0 7")))

    assert created.stdout == "Created nightly with 2 steps.\n"
    assert again.stdout == "nightly is as the file says; nothing changed.\n"
    assert changed.stdout == "Updated nightly:\n  schedule: 0 6 * * * → 0 7 * * *\n"


def test_apply_with_json_prints_one_document(wf, recipe, alice):
    document = wf("apply", recipe(GOOD), "--json").document

    assert (document["slug"], document["new"], document["revision"]) == (
        "nightly",
        True,
        1,
    )
    assert document["changes"] == ["created"]


def test_apply_reads_stdin_and_json(wf, alice):
    data = {"slug": "small", "steps": [factories.sleep()]}

    assert wf("apply", "-", stdin=json.dumps(data)).status == 0
    assert Workflow.objects.get().slug == "small"


def test_export_gives_the_file_back(wf, recipe, alice):
    wf("apply", recipe(GOOD))

    as_yaml = wf("export", "nightly")
    as_json = wf("export", "nightly", "--json")

    assert yaml.safe_load(as_yaml.stdout)["steps"][1]["prompt"] == "Ship it?"
    assert as_json.document["schedule"] == "0 6 * * *"
    for words in (as_yaml.stdout, as_json.stdout):
        assert "nothing changed" in wf("apply", recipe(words)).stdout


def test_list_says_when_in_words_and_what_last(wf, house, alice):
    flow = factories.workflow(house, factories.sleep(), schedule="0 6 * * *")
    run = spawn_run(flow, start=Start(by=alice)).run

    (line,) = wf("list", "--json").document
    shown = wf("list").stdout

    assert {"slug", "name", "schedule", "next_slot_at", "paused", "last_run"} <= set(
        line
    )
    assert line["last_run"]["id"] == str(run.pk)
    assert "At 06:00, every day" in shown
    assert "\x1b" not in shown


def test_an_empty_list_is_a_document_too(wf, alice):
    assert wf("list", "--json").document == []
    assert "wf apply" in wf("list").stdout


def test_a_paused_workflow_holds_its_runs_until_it_is_resumed(wf, house, alice):
    flow = factories.workflow(house, factories.sleep())

    assert wf("pause", "nightly", "--reason", "holidays", "--json").document["paused"]
    run = spawn_run(flow, start=Start(by=alice)).run
    assert run.ready_at is None
    assert wf("list", "--json").document[0]["paused_reason"] == "holidays"

    assert wf("resume", "nightly", "--json").document["paused"] is False
    run.refresh_from_db()
    assert run.ready_at is not None


def test_slots_look_ahead_and_back(wf, house, alice):
    factories.workflow(house, factories.sleep(), schedule="0 0 29 2 *")

    ledger = wf("slots", "nightly", "--next", 100, "--last", 0, "--json").document

    assert len(ledger["next"]) == 100
    assert ledger["next"][0]["slot"].endswith("-02-29T00:00:00Z")
    assert ledger["last"] == []
    assert "next" in wf("slots", "nightly").stdout
    assert not Slot.objects.exists()


def test_slots_come_soonest_first_and_a_paused_workflow_says_it_skips_them(
    wf, house, alice
):
    flow = factories.workflow(house, factories.sleep(), schedule="@daily")

    def shown() -> list[str]:
        lines = wf("slots", "nightly", "--next", 3).stdout.splitlines()[1:]
        return [line.split()[1] for line in lines]

    assert len(shown()) == 3
    assert shown() == sorted(shown())
    assert "paused" not in wf("slots", "nightly").stdout

    authoring.pause_workflow(flow)
    paused = wf("slots", "nightly")
    assert "its slots are skipped until it resumes" in paused.stderr
    assert paused.stdout.count("skipped if still paused then") == 5


@pytest.mark.parametrize("number", ["101", "-1", "many", "1.5", ""])
def test_slots_take_whole_numbers_up_to_a_hundred(wf, house, alice, number):
    factories.workflow(house, factories.sleep(), schedule="@daily")

    ended = wf("slots", "nightly", f"--next={number}")

    assert (ended.status, ended.stdout) == (1, "")
    assert "--next: must be a whole number from 0 to 100" in ended.stderr


def test_an_unknown_workflow_is_refused_with_those_that_are_there(wf, house, alice):
    factories.workflow(house, factories.sleep())

    for verb in ("export", "pause", "resume", "slots", "spawn"):
        ended = wf(verb, "nightyl")
        assert (ended.status, ended.stdout) == (1, "")
        assert "“nightyl”" in ended.stderr
        assert "nightly" in ended.stderr
    assert not Run.objects.exists()


def test_only_authors_change_workflows(wf, recipe, house, bob, alice):
    factories.workflow(house, factories.sleep())

    for words in (("apply", recipe(GOOD)), ("pause", "nightly")):
        ended = wf(*words, "--as", "bob")
        assert ended.status == 1
        assert "Only authors and owners" in ended.stderr
    assert not Workflow.objects.get().paused
