from __future__ import annotations

import pytest

from tests import drive, factories
from threads.models import Entry, GateAnswer
from workflows.models import Run
from workflows.services import Start, spawn_run


@pytest.fixture
def asking(house, alice) -> Run:
    flow = factories.workflow(
        house, factories.gate("ship", "Ship it?"), factories.sleep()
    )
    return drive.carry(spawn_run(flow, start=Start(by=alice)).run)


def count(run: Run) -> int:
    return Entry.objects.filter(thread=drive.thread_of(run)).count()


@pytest.mark.parametrize(
    ("said", "understood"),
    [("👍", "approved"), ("yes", "approved"), ("-1", "rejected"), ("no", "rejected")],
)
def test_a_reply_answers_the_open_question(wf, asking, said, understood):
    document = wf("reply", asking.pk, said, "--json").document

    assert document["understood"] == understood
    assert document["run"] == str(asking.pk)
    assert document["state"] == "pending"
    answer = Entry.objects.get(thread=drive.thread_of(asking), kind="answer")
    assert (answer.body, answer.author_name) == (said, "alice")


def test_an_unclear_reply_is_kept_and_the_question_stays_open(wf, asking):
    ended = wf("reply", asking.pk, "yes, but not today", "--json")

    assert ended.status == 0
    assert ended.document["understood"] is None
    assert drive.open_gate(asking).state == "open"
    assert "yes, but not today" in drive.bodies(asking)


def test_a_reply_shows_what_came_of_it(wf, asking):
    unclear = wf("reply", asking.pk, "maybe?")
    clear = wf("reply", asking.pk, "ok")

    assert "could mean either" in unclear.stdout
    assert "Waiting for anyone to answer “ship”" in unclear.stderr
    assert "Understood as approved by alice." in clear.stdout


def test_a_reply_speaks_as_the_one_named(wf, asking, bob):
    assert wf("reply", asking.pk, "yes", "--as", "bob").status == 0
    assert GateAnswer.objects.get().name == "bob"


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        ("dave", "--as: dave is not a member of the house “home”"),
        ("nobody", "--as: there is nobody called “nobody”"),
        ("carol", "A viewer can read here, not answer."),
    ],
)
@pytest.mark.parametrize("verb", ["reply", "decide"])
def test_who_may_not_answer_is_refused_and_nothing_is_written(
    wf, asking, carol, dave, verb, who, reason
):
    before = count(asking)

    ended = wf(verb, asking.pk, "approve", "--as", who, "--json")

    assert (ended.status, ended.stdout) == (1, "")
    assert reason in ended.stderr
    assert count(asking) == before
    assert not GateAnswer.objects.exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("a\udc80", "text: holds half of a surrogate pair"),
        ("a\x00b", "text: holds a NUL character"),
        ("   ", "An answer needs some words."),
    ],
)
def test_a_reply_that_cannot_be_kept_is_refused(wf, asking, words, reason):
    before = count(asking)

    ended = wf("reply", asking.pk, words)

    assert (ended.status, ended.stdout) == (1, "")
    assert reason in ended.stderr
    assert count(asking) == before


def test_a_decision_closes_the_gate(wf, asking):
    document = wf(
        "decide", asking.pk, "reject", "--comment", "not yet", "--json"
    ).document

    assert document["outcome"] == "rejected"
    assert (document["by"], document["run"]) == ("alice", str(asking.pk))
    assert "reject: not yet" in drive.bodies(asking)
    drive.carry(asking)
    assert asking.failure["reason"].startswith("rejected by alice")


def test_a_gate_answered_twice_is_refused_with_who_and_when(wf, asking):
    wf("decide", asking.pk, "approve")
    before = count(asking)

    ended = wf("decide", asking.pk, "reject", "--json")

    assert (ended.status, ended.stdout) == (1, "")
    assert "by alice at 2" in ended.stderr
    assert count(asking) == before
    assert GateAnswer.objects.count() == 1


def test_a_second_of_two_approvals_must_be_somebody_elses(wf, house, alice, bob):
    flow = factories.workflow(house, factories.gate(approvals=2))
    run = drive.carry(spawn_run(flow).run)

    first = wf("decide", run.pk, "approve", "--json")
    again = wf("decide", run.pk, "approve")
    second = wf("decide", run.pk, "approve", "--as", "bob", "--json")

    assert first.document["outcome"] is None
    assert again.status == 1
    assert "You have already answered" in again.stderr
    assert second.document["outcome"] == "approved"


def test_a_choice_is_one_of_those_offered(wf, house, alice):
    flow = factories.workflow(
        house, factories.gate(answer="choose", choices=["red", "blue"])
    )
    run = drive.carry(spawn_run(flow).run)

    wrong = wf("decide", run.pk, "green")
    right = wf("decide", run.pk, "blue", "--json")

    assert wrong.status == 1
    assert "choose red or blue" in wrong.stderr
    assert right.document["outcome"] == "replied"


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ("[1]", "form: must be a JSON object"),
        ("{", "form: is not JSON"),
        ('{"a": 1}', "form: this question does not take one"),
    ],
)
def test_a_form_where_none_fits_is_refused(wf, asking, form, reason):
    ended = wf("decide", asking.pk, "approve", "--form", form)

    assert ended.status == 1
    assert reason in ended.stderr
    assert drive.open_gate(asking).state == "open"


def test_a_run_that_asks_nothing_says_where_it_is(wf, house, alice):
    run = drive.carry(spawn_run(factories.workflow(house, factories.sleep())).run)

    ended = wf("decide", run.pk, "approve")

    assert ended.status == 1
    assert "asks nothing" in ended.stderr
    assert "Asleep until" in ended.stderr
