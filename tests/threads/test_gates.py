"""One decision behind every door: who may answer, what counts, who was first (A5, A23)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests import drive, factories, hands
from threads import gates, phrases, services
from threads.exceptions import (
    AlreadyAnswered,
    BadAnswer,
    GateClosed,
    Malformed,
    NotAllowed,
    NotFound,
    NotYourGate,
    ThreadError,
)
from threads.locking import bot_author
from threads.models import Bot, Gate, GateAnswer, Turn
from workflows.models import Checkpoint, Event
from workflows.services import Start, spawn_run


def ask(house, *, by=None, slug="nightly", **more):
    """Carry a run to a gate; return the run and its gate."""
    flow = factories.workflow(
        house, factories.gate("ship", "Ship it?", **more), slug=slug
    )
    run = hands.go_on(spawn_run(flow, start=Start(by=by)).run)
    return run, drive.open_gate(run)


def decide(gate, person, answer="approve", **more):
    return gates.decide(gate.pk, person=person, answer=answer, door="page", **more)


def say(run, person, text):
    return gates.speak(drive.thread_of(run), person=person, text=text)


def result_of(run):
    return Checkpoint.objects.get(run=run).result


def test_an_approval_completes_the_step(house, alice):
    run, gate = ask(house)

    decide(gate, alice, comment="looks good")

    assert hands.go_on(run).state == "completed"
    assert result_of(run) == {
        "approved": True, "reply": "approve: looks good", "by": "alice", "form": None,
    }  # fmt: skip
    assert drive.bodies(run)[1:] == ["Ship it?", "approve: looks good", "Completed."]
    answer = GateAnswer.objects.get()
    assert (answer.person, answer.door, answer.answer) == (alice, "page", "approve")


@pytest.mark.parametrize("words", ["👎", "no", "Rejected.", "-1"])
def test_a_rejection_fails_the_step_by_name(house, alice, words):
    run, _ = ask(house)

    say(run, alice, words)

    hands.go_on(run)
    assert run.failure == {"step": "ship", "reason": "rejected by alice"}
    assert drive.bodies(run)[3] == "Understood as rejected by alice."


def test_a_rejection_may_be_what_a_later_step_waits_for(house, alice):
    ok = factories.gate("ok", on_error="continue")
    flow = factories.workflow(house, ok, factories.gate("why", when="on_failure"))
    run = hands.go_on(spawn_run(flow).run)

    say(run, alice, "no")

    assert hands.go_on(run).state == "waiting"
    assert drive.open_gate(run).title == "why"


@pytest.mark.parametrize("words", ["yes, but wait", "hm", "maybe yes?", "Looks great!"])
def test_an_unclear_reply_leaves_the_question_open(house, alice, words):
    run, gate = ask(house)

    spoken = say(run, alice, words)

    assert spoken.understood is None
    gate.refresh_from_db()
    assert gate.state == "open"
    assert drive.entries(run)[-2][1:] == ("alice", "message", words)
    assert drive.entries(run)[-1][1:] == (
        "System", "note", phrases.UNCLEAR.format(text=words),
    )  # fmt: skip
    assert say(run, alice, "yes").understood == "approved"


def test_viewers_outsiders_and_the_inactive_are_refused(house, carol, dave, bob):
    run, gate = ask(house)
    bob.is_active = False
    bob.save()
    for person, refusal in ((carol, NotAllowed), (dave, NotFound), (bob, NotFound)):
        with pytest.raises(refusal):
            decide(gate, person)
        with pytest.raises(refusal):
            say(run, person, "yes")

    gate.refresh_from_db()
    assert gate.state == "open"
    assert drive.bodies(run) == ["Started by System.", "Ship it?"]


def test_a_bot_or_system_never_answers(house):
    run, gate = ask(house)
    bot = Bot.objects.get(house=house)

    services.append_entry(drive.thread_of(run), "yes", author=bot_author(bot))
    services.append_entry(drive.thread_of(run), "approved")

    gate.refresh_from_db()
    assert gate.state == "open"


def test_only_those_it_names_may_answer(house, alice, bob):
    run, gate = ask(house, who=["alice"])

    with pytest.raises(NotYourGate, match="for alice"):
        decide(gate, bob)
    assert say(run, bob, "yes").understood is None
    assert drive.bodies(run)[-2:] == ["yes", "This question is for alice."]

    decide(gate, alice)
    assert hands.go_on(run).state == "completed"


def test_a_role_may_be_named(house, alice, bob):
    _, gate = ask(house, who=["owner"])

    with pytest.raises(NotYourGate):
        decide(gate, bob)
    assert decide(gate, alice).outcome == "approved"


def test_an_address_may_be_named(house, alice, bob):
    _, gate = ask(house, who=["bob@example.com"])

    with pytest.raises(NotYourGate):
        decide(gate, alice)
    assert decide(gate, bob).outcome == "approved"


def test_the_starter_may_answer_unless_the_step_says_not(house, alice, bob):
    _, mine = ask(house, by=alice)
    assert decide(mine, alice).outcome == "approved"
    run, strict = ask(house, by=alice, slug="strict", not_starter=True)

    with pytest.raises(NotYourGate, match="somebody else"):
        decide(strict, alice)
    assert say(run, alice, "yes").understood is None
    assert decide(strict, bob).outcome == "approved"


def test_it_waits_for_as_many_approvals_as_it_wants(house, alice, bob):
    run, gate = ask(house, approvals=2)

    assert say(run, alice, "yes").understood == "counted"

    assert drive.bodies(run)[-1] == "1 of 2 approvals; waiting for 1 more."
    assert hands.go_on(run).state == "waiting"
    with pytest.raises(AlreadyAnswered):
        decide(gate, alice)
    decide(gate, bob)
    assert hands.go_on(run).state == "completed"


def test_one_rejection_is_enough(house, alice, bob):
    run, gate = ask(house, approvals=2)
    decide(gate, alice)

    decide(gate, bob, "reject")

    assert hands.failure(hands.go_on(run))[1] == "rejected by bob"


@pytest.mark.parametrize(
    ("on_deadline", "state", "failure"),
    [
        ("fail", "failed", {"step": "ship", "reason": "nobody answered in time"}),
        ("approve", "completed", None),
        ("reject", "failed", {"step": "ship", "reason": "rejected by the deadline"}),
        ("skip", "completed", None),
    ],
)
def test_silence_has_the_outcome_the_step_names(house, on_deadline, state, failure):
    run, gate = ask(house, deadline="1h", on_deadline=on_deadline)
    assert not gates.expire(gate.pk)
    drive.late(run, by=timedelta(hours=2))

    assert gates.expire(gate.pk)
    assert not gates.expire(gate.pk)

    hands.go_on(run)
    assert (run.state, run.failure) == (state, failure)
    assert drive.bodies(run)[2] == phrases.EXPIRED[on_deadline]
    steps = {"fail": "failed", "reject": "failed", "skip": "skipped"}
    assert drive.steps(run) == [("ship", steps.get(on_deadline, "completed"))]


def test_a_late_answer_counts_while_nothing_has_closed_the_question(house, alice):
    run, gate = ask(house, deadline="1h")
    drive.late(run, by=timedelta(hours=2))

    say(run, alice, "yes")

    assert not gates.expire(gate.pk)
    assert hands.go_on(run).state == "completed"
    assert drive.bodies(run)[3] == (
        "Understood as approved by alice. (after the deadline)"
    )


def test_an_answer_after_the_deadline_closed_it_is_told_so(house, alice):
    run, gate = ask(house, deadline="1h")
    drive.late(run, by=timedelta(hours=2))
    gates.expire(gate.pk)

    with pytest.raises(GateClosed, match="by the deadline"):
        decide(gate, alice)


def test_a_gate_without_a_deadline_waits_for_ever(house):
    run, gate = ask(house)

    assert (gate.due_at, run.due_at, run.ready_at, run.holder) == (None,) * 4
    assert not gates.expire(gate.pk)


def test_any_words_acknowledge(house, alice):
    run, _ = ask(house, answer="acknowledge")

    say(run, alice, "seen, thanks")

    assert hands.go_on(run).state == "completed"
    assert Gate.objects.get().outcome == "acknowledged"


def test_a_reply_is_kept_as_it_was_said(house, alice):
    run, _ = ask(house, answer="reply")

    say(run, alice, "No, not until *Friday*?")

    assert hands.go_on(run).state == "completed"
    assert result_of(run)["reply"] == "No, not until *Friday*?"


def test_a_choice_is_one_of_the_choices(house, alice):
    run, gate = ask(house, answer="choose", choices=["Staging", "Production"])

    with pytest.raises(BadAnswer, match="choose Staging or Production"):
        decide(gate, alice, "both")
    assert say(run, alice, "both").understood is None
    say(run, alice, "production")

    assert hands.go_on(run).state == "completed"
    assert result_of(run)["reply"] == "Production"


@pytest.mark.parametrize("answer", ["", "  ", "perhaps"])
def test_an_outright_answer_must_be_one(house, alice, answer):
    _, gate = ask(house)

    with pytest.raises(BadAnswer):
        decide(gate, alice, answer)


@pytest.mark.parametrize("words", ["yes\0", "yes\ud800"])
def test_words_that_cannot_be_kept_are_refused(house, alice, words):
    run, gate = ask(house)

    with pytest.raises(Malformed):
        say(run, alice, words)
    with pytest.raises(Malformed):
        decide(gate, alice, comment=words)
    assert not GateAnswer.objects.exists()


def test_who_comes_second_is_told_who_was_first(house, alice, bob):
    _, gate = ask(house)
    decide(gate, alice)

    with pytest.raises(GateClosed, match="approved by alice at "):
        decide(gate, bob, "reject")


def test_a_closed_question_tells_outsiders_nothing(house, alice, dave):
    _, gate = ask(house)
    decide(gate, alice)

    with pytest.raises(NotFound):
        decide(gate, dave)


def crowd(house, count):
    return [factories.member(house, f"person-{number}") for number in range(count)]


@pytest.mark.django_db(transaction=True)
def test_two_answers_at_once_leave_one_outcome_and_tell_the_other(house):
    people = crowd(house, 8)
    run, gate = ask(house)

    def act(number):
        answer = "approve" if number % 2 else "reject"
        try:
            return decide(gate, people[number], answer).outcome
        except GateClosed as closed:
            return str(closed)

    told = hands.together(8, act)

    gate.refresh_from_db()
    outcome = [words for words in told if words in {"approved", "rejected"}]
    assert outcome == [gate.outcome]
    first = f"This question was {gate.outcome} by {gate.closed_by} at "
    others = [words for words in told if words not in outcome]
    assert len(others) == 7
    assert all(words.startswith(first) for words in others)
    assert GateAnswer.objects.count() == Event.objects.count() == 1
    assert len(drive.bodies(run)) == 3


@pytest.mark.django_db(transaction=True)
def test_many_approvals_at_once_close_it_at_the_one_that_was_wanted(house):
    people = crowd(house, 8)
    run, gate = ask(house, approvals=3)

    def act(number):
        try:
            return decide(gate, people[number]).state
        except ThreadError:
            return "told"

    told = hands.together(8, act)

    assert sorted(told) == ["closed", "open", "open", *["told"] * 5]
    assert GateAnswer.objects.count() == 3
    assert hands.go_on(run).state == "completed"


@pytest.mark.django_db(transaction=True)
def test_one_person_at_two_doors_answers_once(house, alice):
    _, gate = ask(house, approvals=2)

    def act(number):
        try:
            decide(gate, alice)
        except AlreadyAnswered:
            return "told"
        return "counted"

    assert sorted(hands.together(4, act)) == ["counted", "told", "told", "told"]


def test_words_without_a_question_are_answered_from_the_rows(house, alice):
    flow = factories.workflow(house, factories.sleep("rest"))
    run = hands.go_on(spawn_run(flow).run)

    spoken = say(run, alice, "how is it going?")

    assert spoken.understood is None
    assert drive.entries(run)[-2][1:3] == ("alice", "message")
    assert drive.bodies(run)[-1].startswith("Noted. Asleep until ")
    assert not Turn.objects.exists()


def test_a_run_that_has_ended_says_so(house, alice):
    run, gate = ask(house)
    decide(gate, alice)
    hands.go_on(run)

    say(run, alice, "and now?")

    assert drive.bodies(run)[-1].startswith(
        "This run has ended, so nobody acts on that"
    )
