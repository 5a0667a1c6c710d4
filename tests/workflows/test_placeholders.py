"""What steps see of the payload and of earlier results, over a whole run (A11-A14)."""

from __future__ import annotations

import pytest

from tests import drive, factories, hands
from threads import gates
from threads.models import Gate, Turn
from workflows.models import Checkpoint
from workflows.services import spawn_run


def ask(house, words, *before, payload=None, kind=factories.command):
    """Carry a run to a last step that says these words; return the run."""
    flow = factories.workflow(house, *before, kind("say", words))
    return hands.go_on(spawn_run(flow, payload=payload).run)


def test_a_command_runs_what_the_thread_shows(house):
    run = ask(house, "deploy '{{payload.branch}}'", payload={"branch": "a b; $(rm)"})

    turn = Turn.objects.get()
    assert turn.instruction == "deploy 'a b; $(rm)'"
    assert drive.bodies(run)[1] == turn.instruction
    assert Checkpoint.objects.get().instruction == turn.instruction


def test_a_value_is_never_rendered_again(house):
    run = ask(house, "echo {{a}}", payload={"a": "{{b}}", "b": "twice"})

    assert drive.bodies(run)[1] == "echo {{b}}"


@pytest.mark.parametrize(
    ("value", "text"),
    [("", ""), (0, "0"), (False, "false"), (None, "null"), ([], "[]"), ({}, "{}")],
)
def test_empty_zero_and_false_are_values(house, value, text):
    run = ask(house, "say [{{v}}]", payload={"v": value})

    assert run.state == "waiting"
    assert drive.bodies(run)[1] == f"say [{text}]"


@pytest.mark.parametrize("kind", [factories.command, factories.prompt, factories.gate])
def test_a_path_that_does_not_resolve_fails_the_step_before_anything_runs(house, kind):
    run = ask(house, "go {{ payload.user.name }}", payload={"user": {}}, kind=kind)

    assert run.state == "failed"
    assert hands.failure(run)[0] == "say"
    assert "“payload.user.name” has no value" in hands.failure(run)[1]
    assert not Turn.objects.exists()
    assert not Gate.objects.exists()
    assert [kind for _, _, kind, _ in drive.entries(run)] == ["note"] * 3


def test_a_run_without_a_payload_has_an_empty_one(house):
    run = ask(house, "say {{payload}}")

    assert drive.bodies(run)[1] == "say {}"


def test_a_later_step_reads_what_an_earlier_one_left(house, alice):
    run = ask(
        house, "{{steps.ship.by}} said {{steps.ship.reply}}", factories.gate("ship")
    )
    gates.speak(drive.thread_of(run), person=alice, text="yes, please")

    hands.go_on(run)

    assert drive.bodies(run)[-2] == "alice said yes, please"


def test_the_result_of_a_failed_step_resolves(house):
    check = factories.command("check", "make test", on_error="continue")
    run = ask(house, "Look: {{steps.check.output}} ({{steps.check.exit_code}})", check)

    hands.answer(run, output="1 failed", status=2)

    assert Turn.objects.get(state="pending").instruction == "Look: 1 failed (2)"


def test_a_skipped_step_has_no_result_and_the_reason_says_so(house, alice):
    handler = factories.command("mend", "true", when="on_failure")
    run = ask(house, "say {{steps.mend.output}}", factories.gate("ok"), handler)
    gates.speak(drive.thread_of(run), person=alice, text="yes")

    hands.go_on(run)

    assert drive.steps(run) == [
        ("ok", "completed"),
        ("mend", "skipped"),
        ("say", "failed"),
    ]
    assert "“steps.mend.output” has no value" in hands.failure(run)[1]
    assert "was skipped" in hands.failure(run)[1]


def test_a_lone_placeholder_in_args_keeps_its_type(house, calls):
    step = factories.call(
        "work", "work", args={"value": "{{payload.n}}", "t": "n={{n}}"}
    )
    run = spawn_run(factories.workflow(house, step), payload={"n": [1, 2]}).run

    assert hands.go_on(run).state == "completed"
    assert calls.seen == [{"value": [1, 2], "t": "n=[1, 2]"}]


def test_an_unresolved_argument_is_not_tried_again(house, calls):
    step = factories.call(
        "work", "work", args={"value": "{{n}}"}, retries={"limit": 3, "delay": 60}
    )
    run = hands.go_on(spawn_run(factories.workflow(house, step)).run)

    assert run.state == "failed"
    assert calls.seen == []


def test_a_run_knows_itself(house):
    flow = factories.workflow(house, factories.command("say", "{{run.id}} {{run.key}}"))
    run = hands.go_on(spawn_run(flow, key="k7").run)

    assert drive.bodies(run)[1] == f"{run.pk} k7"


def test_a_sleep_reads_its_length_from_the_payload(house):
    flow = factories.workflow(
        house, {"name": "rest", "kind": "sleep", "seconds": "{{hours}}h"}
    )
    asleep = hands.go_on(spawn_run(flow, payload={"hours": 2}).run)
    broken = hands.go_on(spawn_run(flow, payload={"hours": "two "}).run)

    assert asleep.state == "sleeping"
    assert drive.bodies(asleep)[1] == "Sleeping for 2 h."
    assert broken.state == "failed"
    assert hands.failure(broken)[1].startswith("seconds: ")
