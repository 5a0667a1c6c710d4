"""A bot asks people in the middle of its turn and holds nothing meanwhile (A5, A46)."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db.models import F
from django.db.models.functions import Now

from tests import drive, factories, models
from tests.models import Reply, call
from threads import gates, tenancy
from threads.models import Bot, Entry, Gate, Turn, TurnMessage
from workflows import documents, why
from workflows.services import cancel_run, spawn_run

ASKS = Reply("One moment.", calls=(call("ask_person", question="Which **branch**?"),))


@pytest.fixture
def said():
    """What the model says; a test may put another first message in its place."""
    return [ASKS, Reply("Then I take it.")]


@pytest.fixture
def served(house, settings, said):
    tenancy.set_secret(house, "MODEL_KEY", "k")
    Bot.objects.filter(house=house).update(runtime="agent", model="fake:fake-1")
    with models.serve("openai-chat", lambda number: said[min(number, 1)]) as made:
        settings.MODELS = [made.setting]
        yield made


def asked(house):
    run = drive.carry(
        spawn_run(factories.workflow(house, factories.prompt("look"))).run
    )
    assert run.state == "waiting"
    return run


def answer(run, alice, text):
    gates.speak(drive.thread_of(run), person=alice, text=text, door="thread")
    return drive.carry(run)


def results():
    rows = TurnMessage.objects.filter(kind="result").order_by("number")
    return [row.body["text"] for row in rows]


def test_it_waits_and_holds_nothing(house, alice, served, said):
    asked(house)

    turn = Turn.objects.get()
    assert turn.state == "waiting"
    assert (turn.holder, turn.held_until, turn.due_at, turn.ready_at) == (None,) * 4
    gate = Gate.objects.get()
    assert (gate.kind, gate.prompt, gate.due_at) == ("reply", "Which **branch**?", None)
    assert len(served.requests) == 1


def test_a_reply_is_the_calls_result_and_the_bot_goes_on(house, alice, served, said):
    run = asked(house)

    run = answer(run, alice, "main, please")

    assert run.state == "completed"
    assert results() == ["alice answered: main, please"]
    assert "main, please" in json.dumps(served.requests[1])
    assert served.refused == []
    bodies = drive.bodies(run)
    assert bodies.count("Which **branch**?") == 1
    assert bodies[-3:] == ["Then I take it.", "dispatch.completed", "Completed."]


def test_everybody_sees_that_it_is_asked(house, alice, served, said, client):
    run = asked(house)

    waits = documents.run(run)["waiting_for"]
    assert waits["kind"] == "gate"
    assert "Waiting for anyone in the house to answer" in why.in_words(run)
    client.force_login(alice)
    assert (
        "Which <strong>branch</strong>?"
        in client.get(f"/runs/{run.pk}/").content.decode()
    )
    assert "Which <strong>branch</strong>?" in client.get("/").content.decode()


@pytest.mark.parametrize(("spoken", "told"), [("yes", "yes"), ("no", "no")])
def test_a_yes_or_no_goes_on_either_way(house, alice, served, said, spoken, told):
    said[0] = Reply(calls=(call("ask_person", question="Go?", kind="approve"),))
    run = asked(house)

    run = answer(run, alice, spoken)

    assert run.state == "completed"
    assert results() == [f"alice answered: {told}"]


def test_a_choice_is_one_of_those_that_were_given(house, alice, served, said):
    ask = call(
        "ask_person", question="Which?", kind="choose", choices=["left", "right"]
    )
    said[0] = Reply(calls=(ask,))
    run = asked(house)

    run = answer(run, alice, "neither")
    assert run.state == "waiting"
    run = answer(run, alice, "left")

    assert run.state == "completed"
    assert results() == ["alice answered: left"]


def test_silence_past_the_deadline_is_told_to_the_bot(house, alice, served, said):
    ask = call("ask_person", question="Which?", deadline_seconds=3600)
    said[0] = Reply(calls=(ask,))
    run = asked(house)
    Gate.objects.update(due_at=Now() - timedelta(seconds=1))

    assert gates.expire(Gate.objects.get().pk)
    run = drive.carry(run)

    assert run.state == "completed"
    assert results() == ["Nobody answered in time. Go on without, and say so."]
    assert "the bot goes on without an answer" in "\n".join(drive.bodies(run))


def test_a_cancel_meanwhile_ends_it_at_once(house, alice, served, said):
    run = asked(house)

    cancel_run(run.pk, by=alice)

    run.refresh_from_db()
    assert run.state == "cancelled"
    assert Turn.objects.get().state == "cancelled"
    assert not Gate.objects.filter(state="open").exists()


def test_a_worker_that_dies_after_asking_asks_no_second_time(
    house, alice, served, said
):
    run = asked(house)
    Turn.objects.update(state="pending", ready_at=Now(), crashes=F("crashes") + 1)

    run = drive.carry(run)

    assert Gate.objects.count() == 1
    assert Entry.objects.filter(body="Which **branch**?").count() == 1
    assert Turn.objects.get().state == "waiting"
    run = answer(run, alice, "main")
    assert run.state == "completed"
    assert len(served.requests) == 2


@pytest.mark.parametrize(
    "args",
    [
        {"question": ""},
        {"question": "Which?", "kind": "choose"},
        {"question": "Which?", "choices": ["a"]},
        {"question": "Which?", "kind": "vote"},
        {"question": "Which?", "deadline_seconds": 1},
    ],
)
def test_a_question_nobody_can_answer_is_told_to_the_bot(
    house, alice, served, said, args
):
    said[0] = Reply(calls=(call("ask_person", **args),))

    run = drive.carry(
        spawn_run(factories.workflow(house, factories.prompt("look"))).run
    )

    assert run.state == "completed"
    assert "ask_person" in results()[0]
    assert not Gate.objects.exists()
