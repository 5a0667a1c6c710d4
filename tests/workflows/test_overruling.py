"""End a step by hand: skipped, or with a result, and always with a reason."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest

from tests import drive, factories, hands
from threads import gates, questions
from threads.exceptions import GateClosed
from threads.models import Gate, Turn
from threads.runtime.sandbox.protocol import Stop
from threads.runtime.watch import Watch
from workflows import events, settling, why
from workflows.engine.conductor import Conductor
from workflows.exceptions import (
    BadResult,
    ByHandAlready,
    NeedsReason,
    NotReached,
    RunSettled,
    RunStopping,
    StepAtWork,
)
from workflows.models import Checkpoint, Event, Plan, Run
from workflows.services import (
    cancel_run,
    look,
    pause_run,
    resume_run,
    set_result,
    skip_step,
    spawn_run,
)

pytestmark = pytest.mark.django_db(transaction=True)
WHY = "it is done already"


def begin(house, *steps, **more):
    return hands.go_on(spawn_run(factories.workflow(house, *steps, **more)).run)


def fresh(run):
    return Run.objects.get(pk=run.pk)


def waits(**more):
    return {"name": "wait", "kind": "wait_for_event", "event": "deployed", **more}


PARKED = [
    factories.command("first"),
    factories.prompt("first"),
    factories.gate("first"),
    factories.sleep("first"),
    {**waits(), "name": "first"},
]


@pytest.mark.parametrize("step", PARKED, ids=lambda step: step["kind"])
def test_a_step_that_waits_is_skipped_at_once_and_the_run_goes_on(
    house, alice, calls, step
):
    run = begin(house, step, factories.call("next", "work"))

    skip_step(run.pk, by=alice, reason=WHY)

    assert fresh(run).state == "pending"
    assert hands.go_on(run).state == "completed"
    assert drive.steps(run) == [("first", "skipped"), ("next", "completed")]
    assert f"Skipped first by alice: {WHY}" in drive.bodies(run)
    kept = run.steps.get(position=0).by_hand
    assert (kept["state"], kept["by"], kept["reason"]) == ("skipped", "alice", WHY)
    assert kept["at"].endswith("Z")
    assert not Turn.objects.active().exists()
    assert not Gate.objects.filter(state="open").exists()
    told = Event.objects.filter(name=f"wf.step.done:{run.pk}:0")
    assert told.count() == (0 if step["kind"] == "sleep" else 1)


GIVEN = [
    (
        factories.command("first"),
        {"output": "42"},
        {"output": "42", "exit_code": 0, "truncated": 0},
    ),
    (
        factories.prompt("first"),
        {"result": [1]},
        {"output": "", "result": [1]},
    ),
    (
        factories.gate("first"),
        {},
        {"approved": True, "reply": "", "by": "alice", "form": None},
    ),
    (
        {**waits(), "name": "first"},
        {"payload": {"n": 1}},
        {"event": "deployed", "payload": {"n": 1}, "key": ""},
    ),
]


@pytest.mark.parametrize(("step", "given", "kept"), GIVEN)
def test_a_result_set_by_hand_is_what_later_steps_read(
    house, alice, calls, step, given, kept
):
    field = next(iter(kept))
    tell = factories.call("tell", "work", args={"got": f"{{{{steps.first.{field}}}}}"})
    run = begin(house, step, tell)

    set_result(run.pk, given, by=alice, reason=WHY)

    assert hands.go_on(run).state == "completed"
    assert run.steps.get(position=0).result == kept
    assert calls.seen == [{"got": kept[field]}]
    assert f"alice set the result of first by hand: {WHY}" in drive.bodies(run)


def test_a_sleep_that_is_set_ends_now(house):
    run = begin(house, factories.sleep("first"))

    set_result(run.pk, {}, reason=WHY)

    assert hands.go_on(run).state == "completed"
    assert run.steps.get().result["until"].endswith("Z")


def test_a_command_that_runs_is_stopped_and_its_step_ends_as_said(house, alice):
    run = begin(house, factories.command("build"), factories.gate("ship"))
    turn = hands.take(run)

    set_result(run.pk, {"output": "by hand"}, by=alice, reason=WHY)

    assert fresh(run).state == "waiting"
    assert Watch(turn).stop() is Stop.CANCEL
    assert why.in_words(fresh(run)) == (
        f"Stopping what runs of “build”: alice has ended it by hand ({WHY})."
    )
    assert drive.bodies(run)[-1] == "What runs now is being stopped."
    assert hands.end(turn, output="late", status=1)
    assert drive.steps(hands.go_on(run)) == [
        ("build", "completed"),
        ("ship", "waiting"),
    ]
    assert run.steps.get(position=0).result["output"] == "by hand"
    assert fresh(run).failure is None


def test_a_step_by_hand_whose_worker_died_ends_as_said(house):
    run = begin(house, factories.command("build"), factories.gate("ship"))
    hands.take(run)
    skip_step(run.pk, reason=WHY)
    hands.die("worker-turns")

    assert look(run.pk)

    assert drive.steps(hands.go_on(run)) == [("build", "skipped"), ("ship", "waiting")]


def test_a_cancel_after_it_keeps_what_was_said_of_the_step(house):
    run = begin(house, factories.command("build"), factories.gate("ship"))
    turn = hands.take(run)
    skip_step(run.pk, reason=WHY)
    cancel_run(run.pk)

    hands.end(turn)

    assert fresh(run).state == "cancelled"
    assert drive.steps(run) == [("build", "skipped")]


def test_whoever_comes_second_is_told(house, alice, bob):
    run = begin(house, factories.command("build"))
    hands.take(run)
    skip_step(run.pk, by=alice, reason=WHY)
    said = drive.bodies(run)

    with pytest.raises(ByHandAlready):
        set_result(run.pk, {}, by=bob, reason=WHY)

    assert drive.bodies(run) == said


def test_a_question_that_was_skipped_takes_no_answer(house, alice):
    run = begin(house, factories.gate("ship"), factories.gate("next"))
    gate = drive.open_gate(run)
    skip_step(run.pk, by=alice, reason=WHY)

    with pytest.raises(GateClosed, match="withdrawn"):
        gates.decide(gate.pk, person=alice, answer="approve", door="page")

    assert drive.steps(hands.go_on(run)) == [("ship", "skipped"), ("next", "waiting")]


def test_a_turn_that_asks_whether_it_runs_again_is_let_go_of_with_its_question(house):
    step = factories.command("deploy", if_interrupted="ask")
    run = begin(house, step)
    questions.ask_whether(hands.take(run))
    assert Gate.objects.filter(state="open").count() == 1

    set_result(run.pk, {"output": "done"}, reason=WHY)

    assert not Gate.objects.filter(state="open").exists()
    assert hands.go_on(run).state == "completed"


def test_a_retry_delay_is_ended_by_hand(house, calls):
    calls.faults = 9
    step = factories.call("work", "work", retries={"limit": 5, "delay": 3600})
    run = begin(house, step)
    assert run.state == "sleeping"

    set_result(run.pk, 5, reason=WHY)

    assert hands.go_on(run).state == "completed"
    assert run.steps.get().result == {"result": 5}
    assert run.steps.get().error == ""
    assert len(calls.seen) == 1


def test_a_step_that_repeats_is_over_when_one_iteration_is_skipped(house):
    again = {"until": "success", "delay": 3600}
    step = factories.command("poll", repeat=again)
    run = begin(house, step, factories.gate("next"))
    hands.answer(run, status=1)
    assert fresh(run).state == "sleeping"

    skip_step(run.pk, reason=WHY)

    assert drive.steps(hands.go_on(run)) == [
        ("poll", "failed"),
        ("poll", "skipped"),
        ("next", "waiting"),
    ]
    assert fresh(run).failure is None


def test_a_result_set_by_hand_completes_a_step_of_which_an_iteration_failed(house):
    step = factories.command("poll", repeat={"times": 3, "delay": 3600})
    run = begin(house, step)
    hands.answer(run, status=1)
    set_result(run.pk, {}, reason=WHY)
    assert hands.go_on(run).state == "completed"

    other = begin(house, factories.command("poll", repeat={"times": 3}), slug="other")
    hands.answer(other, status=1)
    turn = hands.take(other)
    set_result(other.pk, {}, reason=WHY)
    hands.end(turn, status=1)
    assert fresh(other).failure is None
    assert hands.go_on(other).state == "completed"


def test_a_paused_run_skips_a_step_that_has_not_begun_and_stays_paused(house):
    flow = factories.workflow(house, factories.command("build"), factories.gate("ship"))
    run = spawn_run(flow).run
    pause_run(run.pk)

    skip_step(run.pk, reason=WHY)

    assert hands.go_on(run).state == "pending"
    resume_run(run.pk)
    assert drive.steps(hands.go_on(run)) == [("build", "skipped"), ("ship", "waiting")]


def test_a_run_in_the_line_stays_in_the_line(house):
    flow = factories.workflow(
        house, factories.gate("one"), factories.gate("two"), overlap="wait"
    )
    first, second = (hands.go_on(spawn_run(flow).run) for _ in range(2))

    assert skip_step(second.pk, reason=WHY).ready_at is None

    cancel_run(first.pk)
    assert drive.steps(hands.go_on(second)) == [("one", "skipped"), ("two", "waiting")]


def test_a_step_of_a_kind_that_nobody_knows_is_skipped(house):
    steps = [{"name": "one", "kind": "dance"}, factories.gate("two")]
    flow = factories.workflow(house, factories.gate("one"))
    stored = Plan.objects.create(hash="newer", steps=steps)
    hands.sql("UPDATE workflows_workflow SET plan_id = %s", stored.pk)
    run = hands.go_on(spawn_run(flow).run)
    assert (run.state, run.needs) == ("pending", "dance")

    skip_step(run.pk, reason=WHY)

    assert drive.steps(hands.go_on(run)) == [("one", "skipped"), ("two", "waiting")]


def test_the_run_that_a_step_waits_for_is_cancelled_with_it(house, alice):
    factories.workflow(house, factories.gate(), slug="inner")
    start = {"name": "child", "kind": "run_workflow", "workflow": "inner"}
    run = begin(house, start, factories.gate("next"), slug="outer")
    child = hands.go_on(Run.objects.get(parent=run))

    set_result(run.pk, {"result": 7}, by=alice, reason=WHY)

    assert fresh(child).state == "cancelled"
    assert drive.bodies(child)[-1] == (
        "Cancelled by System: the step “child” of run "
        f"{run.pk}, which started it, was ended by hand"
    )
    assert drive.steps(hands.go_on(run)) == [
        ("child", "completed"),
        ("next", "waiting"),
    ]
    kept = run.steps.get(position=0).result
    assert kept == {"run": str(child.pk), "state": "completed", "result": 7}


def test_a_run_below_that_works_ends_later_and_changes_nothing_above(house):
    factories.workflow(house, factories.command("work"), slug="inner")
    start = {"name": "child", "kind": "run_workflow", "workflow": "inner"}
    run = begin(house, start, factories.gate("next"), slug="outer")
    child = hands.go_on(Run.objects.get(parent=run))
    turn = hands.take(child)
    skip_step(run.pk, reason=WHY)
    assert drive.steps(hands.go_on(run))[-1] == ("next", "waiting")

    hands.end(turn)

    assert fresh(child).state == "cancelled"
    assert fresh(run).state == "waiting"


def test_an_event_after_the_skip_is_not_taken(house):
    run = begin(house, waits(), factories.gate("next"))
    skip_step(run.pk, reason=WHY)

    assert events.emit_event(house, "deployed").woken == ()

    assert drive.steps(hands.go_on(run)) == [("wait", "skipped"), ("next", "waiting")]


def test_a_call_at_work_is_not_ended_by_hand(house, calls):
    run = spawn_run(factories.workflow(house, factories.call("one", "work"))).run
    hands.hold(run)

    with pytest.raises(StepAtWork, match="cancel the run"):
        skip_step(run.pk, reason=WHY)


def test_what_has_ended_or_is_being_stopped_is_not_touched(house):
    run = begin(house, factories.command("build"))
    turn = hands.take(run)
    cancel_run(run.pk)
    with pytest.raises(RunStopping):
        skip_step(run.pk, reason=WHY)
    hands.end(turn)

    with pytest.raises(RunSettled):
        skip_step(run.pk, reason=WHY)


def test_another_step_than_the_one_meant_is_refused(house):
    run = begin(house, factories.gate("ship"))

    with pytest.raises(NotReached, match="stands at “ship”, not at “build”"):
        skip_step(run.pk, reason=WHY, step="build")


@pytest.mark.parametrize("reason", ["", "  \n "])
def test_no_step_ends_by_hand_without_a_reason(house, reason):
    run = begin(house, factories.gate("ship"))

    with pytest.raises(NeedsReason):
        skip_step(run.pk, reason=reason)
    assert drive.open_gate(run).state == "open"


BAD = [
    ("text", "must be a JSON object"),
    ({"out": "x"}, r"result\.out: a run_command leaves output, exit_code"),
    ({"output": 5}, r"result\.output: must be text"),
    ({"exit_code": True}, r"result\.exit_code: must be a whole number"),
    ({"output": "a\0b"}, "NUL"),
    ({"exit_code": float("nan")}, "not finite"),
]


@pytest.mark.parametrize(("result", "words"), BAD)
def test_a_result_that_such_a_step_does_not_leave_is_refused_by_name(
    house, result, words
):
    run = begin(house, factories.command("build"))

    with pytest.raises(BadResult, match=words):
        set_result(run.pk, result, reason=WHY)

    assert Checkpoint.objects.get().by_hand is None
    assert Turn.objects.active().exists()


def test_steps_for_failures_look_past_what_was_skipped(house, calls):
    run = begin(
        house,
        factories.command("checks", on_error="continue"),
        factories.gate("ship"),
        factories.call("rescue", "work", when="on_failure"),
    )
    hands.answer(run, status=1)
    skip_step(run.pk, reason=WHY)

    hands.go_on(run)

    assert drive.steps(run)[-1] == ("rescue", "completed")


@pytest.mark.parametrize(
    "step",
    [factories.gate("first"), factories.sleep("first"), factories.command("first")],
    ids=["gate", "sleep", "command"],
)
def test_two_hands_an_end_and_a_wake_at_one_moment_end_the_step_once(
    house, alice, step
):
    runs = [
        begin(house, step, factories.gate("next"), slug=f"flow-{n}") for n in range(4)
    ]
    turns = [hands.take(run) for run in runs if step["kind"] == "run_command"]
    asked = [drive.open_gate(run).pk for run in runs if step["kind"] == "human_gate"]
    for run in runs if step["kind"] == "sleep" else []:
        drive.late(run, by=timedelta(hours=2))

    def ends(at):
        if turns:
            hands.end(turns[at])
        elif asked:
            gates.decide(asked[at], person=alice, answer="approve", door="page")
        else:
            Conductor().wake_sleepers()

    acts = [
        lambda at: skip_step(runs[at].pk, reason="one", step="first"),
        lambda at: set_result(runs[at].pk, {}, reason="two", step="first"),
        ends,
    ]

    def act(number):
        refusals = (NotReached, ByHandAlready, StepAtWork, GateClosed)
        with contextlib.suppress(*refusals):
            acts[number % 3](number // 3)

    hands.together(12, act)

    for run in runs:
        hands.go_on(run)
        (first, *rest) = drive.steps(run)
        assert first[1] in {"skipped", "completed"}
        assert rest == [("next", "waiting")]
        numbers = [number for number, *_ in drive.entries(run)]
        assert numbers == list(range(1, len(numbers) + 1))
        said = [b for b in drive.bodies(run) if b.endswith(": one") or "hand: two" in b]
        assert len(said) <= 1


def test_a_hand_and_the_end_of_the_run_below_at_one_moment_block_nobody(house):
    factories.workflow(house, factories.gate("inside"), slug="inner")
    start = {"name": "first", "kind": "run_workflow", "workflow": "inner"}
    runs = [
        begin(house, start, factories.gate("next"), slug=f"flow-{n}") for n in range(5)
    ]
    below = [hands.go_on(Run.objects.get(parent=run)) for run in runs]
    acts = [
        lambda at: skip_step(runs[at].pk, reason=WHY, step="first"),
        lambda at: cancel_run(below[at].pk),
        # Woken for nothing: it parks again on the run below.
        lambda at: settling.wake(runs[at].pk) and hands.go_on(runs[at]),
    ]

    def act(number):
        with contextlib.suppress(NotReached, StepAtWork, RunSettled):
            acts[number % 3](number // 3)

    hands.together(15, act)

    for run, child in zip(runs, below, strict=True):
        assert fresh(child).state == "cancelled"
        hands.go_on(run)
        first = drive.steps(run)[0]
        assert first in {("first", "skipped"), ("first", "failed")}


def test_a_hand_and_workers_that_claim_at_one_moment_leave_one_outcome(house, calls):
    flow = factories.workflow(
        house, factories.call("one", "work"), factories.gate("next")
    )
    runs = [spawn_run(flow).run for _ in range(6)]

    def act(number):
        run = runs[number // 2]
        if number % 2:
            hands.go_on(run)
            return ""
        try:
            skip_step(run.pk, reason=WHY, step="one")
        except (StepAtWork, NotReached):
            return ""
        return "skipped"

    drive.holder()
    skipped = hands.together(12, act)[::2].count("skipped")

    for run in runs:
        hands.go_on(run)
        assert drive.steps(run)[-1] == ("next", "waiting")
    assert len(calls.seen) == 6 - skipped
