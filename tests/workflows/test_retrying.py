from __future__ import annotations

import pytest

from tests import drive, factories, hands
from workflows import selectors
from workflows.byhand import Hand
from workflows.exceptions import BadPayload, BadResult, NeedsReason, NotReached
from workflows.models import Event, Run
from workflows.services import cancel_run, retry_run, spawn_run


def test_a_retry_goes_on_with_the_files_of_the_steps_it_keeps(house):
    flow = factories.workflow(
        house,
        factories.command("build", "echo built > artefact"),
        factories.command("ship", "cat artefact && test -e fixed"),
    )
    run = drive.carry(spawn_run(flow).run)
    assert (run.failure or {})["step"] == "ship"

    again = drive.carry(retry_run(run).run)

    assert drive.steps(again)[0] == ("build", "completed")
    assert "built" in drive.bodies(again)


def test_a_retry_past_a_failure_that_stops_the_run_is_refused(house):
    flow = factories.workflow(
        house,
        factories.command("checks", "exit 1"),
        factories.command("rescue", "true", when="on_failure"),
        factories.command("ship"),
    )
    run = drive.carry(spawn_run(flow).run)

    with pytest.raises(NotReached, match="begin at “checks” or earlier"):
        retry_run(run, from_step="ship")

    rescued = drive.carry(retry_run(run, from_step="rescue").run)
    assert drive.steps(rescued)[1] == ("rescue", "completed")
    assert rescued.state == "failed"


@pytest.fixture
def stuck(house):
    """A run whose second step failed, with one for failures and one more after it."""
    flow = factories.workflow(
        house,
        factories.command("build", "echo built"),
        factories.command("ship", "exit 3"),
        factories.command("rescue", "true", when="on_failure"),
        factories.gate("tell", "{{steps.ship.output}}, {{payload.n}}?"),
    )
    run = drive.carry(spawn_run(flow, payload={"n": 1}).run)
    assert run.state == "failed"
    return run


def test_a_retry_by_hand_records_the_failing_step_and_begins_at_the_next(stuck, alice):
    hand = Hand("shipped from my desk", result={"output": "shipped"})

    again = drive.carry(retry_run(stuck, by=alice, hand=hand).run)

    assert drive.steps(again) == [
        ("build", "completed"),
        ("ship", "completed"),
        ("rescue", "skipped"),
        ("tell", "waiting"),
    ]
    assert drive.bodies(again)[:2] == [
        f"Started by alice to retry run {stuck.pk}. Kept from it: build.",
        "alice set the result of ship by hand: shipped from my desk",
    ]
    assert drive.open_gate(again).prompt == "shipped, 1?"
    assert again.steps.filter(name="ship", by_hand__by="alice").exists()
    assert again.retry_of_id == stuck.pk
    assert [pk for pk, _ in selectors.retries(stuck.pk)] == [again.pk]
    assert Event.objects.filter(name=f"wf.step.done:{again.pk}:1").count() == 1


def test_a_retry_that_skips_goes_on_as_after_a_skipped_step(stuck, alice):
    hand = Hand("not today", skips=True)

    again = drive.carry(retry_run(stuck, by=alice, hand=hand).run)

    assert drive.steps(again)[:3] == [
        ("build", "completed"),
        ("ship", "skipped"),
        ("rescue", "skipped"),
    ]
    assert "Skipped ship by alice: not today" in drive.bodies(again)
    step, reason = hands.failure(again)
    assert step == "tell"
    assert "skipped" in reason


def test_a_cancelled_run_goes_on_past_the_step_it_was_cancelled_at(house, alice):
    flow = factories.workflow(house, factories.gate("one"), factories.gate("two"))
    run = drive.carry(spawn_run(flow).run)

    again = retry_run(cancel_run(run.pk), hand=Hand("enough", skips=True)).run

    assert drive.steps(drive.carry(again)) == [("one", "skipped"), ("two", "waiting")]


def test_a_retry_by_hand_at_the_last_step_completes(house):
    flow = factories.workflow(house, factories.command("ship", "exit 1"))
    run = drive.carry(spawn_run(flow).run)

    again = drive.carry(retry_run(run, hand=Hand("done", result={})).run)

    assert again.state == "completed"


def test_a_retry_by_hand_refuses_what_a_step_does_not_leave_and_starts_nothing(stuck):
    with pytest.raises(BadResult):
        retry_run(stuck, hand=Hand("done", result={"x": 1}))
    with pytest.raises(NeedsReason):
        retry_run(stuck, hand=Hand(" ", skips=True))

    assert Run.objects.count() == 1


def test_a_retry_with_another_payload_says_so(stuck, alice):
    again = retry_run(stuck, by=alice, payload={"n": 2}).run

    assert again.payload == {"n": 2}
    assert drive.bodies(again)[0].endswith(
        'Kept from it: build. The payload was changed to {"n": 2}'
    )
    same = retry_run(stuck, payload={"n": 1}).run
    assert "payload" not in drive.bodies(same)[0]


def test_a_retry_with_a_payload_that_cannot_be_kept_is_refused(stuck):
    with pytest.raises(BadPayload):
        retry_run(stuck, payload=["n"])
