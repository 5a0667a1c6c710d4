"""A model or its server gone wrong: nothing it sends ends more than its own turn (A46)."""

from __future__ import annotations

import json
import math

import pytest

from tests import drive, factories, models
from tests.models import Reply, call
from threads import tenancy
from threads.models import Bot, Entry, Turn, TurnMessage
from threads.runtime.bots import llm
from workflows import documents
from workflows.models import Checkpoint
from workflows.services import spawn_run

SHAPES = ("openai-chat", "anthropic", "openai")
KEY = "a-key-like-no-other"


@pytest.fixture(params=SHAPES)
def shape(request):
    return request.param


@pytest.fixture
def bot(house):
    tenancy.set_secret(house, "MODEL_KEY", KEY)
    Bot.objects.filter(house=house).update(runtime="agent", model="fake:fake-1")
    return Bot.objects.get(house=house)


def played(house, settings, shape, replies):
    said = list(replies)
    with models.serve(shape, lambda number: said[min(number, len(said) - 1)]) as served:
        settings.MODELS = [served.setting]
        run = drive.carry(
            spawn_run(factories.workflow(house, factories.prompt("look"))).run
        )
    return run, served


def rows(kind):
    found = TurnMessage.objects.filter(kind=kind).order_by("number")
    return list(found.values_list("body", flat=True))


def reason(run):
    assert run.failure is not None
    return run.failure["reason"]


@pytest.mark.parametrize(
    "ids",
    [
        ("call_1", "call_1", "call_2"),
        ("call_2", "call_2", "call_2"),
        ("functions.run:0", "functions.run:0", "a b"),
        ("é", "", "x" * 500),
    ],
)
def test_ids_that_repeat_or_that_no_server_takes_back_are_replaced(
    house, bot, settings, shape, ids
):
    three = Reply(calls=(call("report", result={}),) * 3, ids=ids)
    run, served = played(house, settings, shape, [three, Reply("Fine.")])

    assert run.state == "completed"
    assert len(rows("result")) == 3
    assert served.refused == []


@pytest.mark.parametrize(
    "tool", ["functions.run", "run command", "x" * 300, "é\x00", ""]
)
def test_a_name_that_no_tool_can_have_is_answered(house, bot, settings, shape, tool):
    odd = Reply(calls=((tool, "{}"),))
    run, served = played(house, settings, shape, [odd, Reply("I see.")])

    assert run.state == "completed"
    assert "There is no tool called" in rows("result")[0]["text"]
    assert served.refused == []


def test_two_hundred_calls_in_one_message_are_used_up_to_the_limit(
    house, bot, settings, shape
):
    settings.TURN_CALLS = 20
    many = Reply(calls=tuple(call("report", result={"n": n}) for n in range(200)))
    run, served = played(house, settings, shape, [many, Reply("Never.")])

    assert "used tools more than 20 times" in reason(run)
    assert len(rows("result")) == 20
    assert len(served.requests) == 1


def test_as_many_calls_as_the_limit_allows_are_followed_by_the_answer(
    house, bot, settings, shape
):
    settings.TURN_CALLS = 3
    three = Reply(calls=(call("report", result={}),) * 3)
    run, _ = played(house, settings, shape, [three, Reply("Done.")])

    assert run.state == "completed"
    assert len(rows("result")) == 3


@pytest.mark.parametrize(
    "args",
    [
        '{"result": {"n": NaN}}',
        '{"result": {"n": 1e999}}',
        '{"result": {"a": "\\ud800", "b": "\\u0000"}}',
        '{"result": ' + "[" * 5000 + "]" * 5000 + "}",
        '{"result": {"n": ' + "9" * 5000 + "}}",
        "null",
        "NaN",
        "",
    ],
)
def test_arguments_that_json_or_the_database_has_no_word_for_are_answered(
    house, bot, settings, shape, args
):
    odd = Reply(calls=(("report", args),))
    run, served = played(house, settings, shape, [odd, Reply("I see.")])

    assert run.state == "completed"
    assert len(rows("result")) == 1
    assert served.refused == []


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -5, "completion_tokens": 10**30, "total_tokens": 0},
        {"prompt_tokens": math.nan, "completion_tokens": math.inf, "total_tokens": 1},
        {"prompt_tokens": "many", "completion_tokens": [], "total_tokens": None},
    ],
)
@pytest.mark.filterwarnings("ignore")  # the libraries' own, about what they were sent
def test_counts_that_are_none_are_no_trouble(house, bot, settings, usage):
    odd = {"model": "fa\x00ke\ud800", "usage": usage}
    replies = [Reply(calls=(call("report", result={}),), **odd), Reply("Done.", **odd)]
    run, served = played(house, settings, "openai-chat", replies)

    assert run.state == "completed", run.failure
    assert served.refused == []
    used = documents.run(run)["usage"]
    assert used["input_tokens"] == 0
    assert used["output_tokens"] == 0


def test_an_answer_that_was_declined_fails_the_step_at_once(
    house, bot, settings, shape
):
    no = Reply("I would rather not.", finish="content_filter")
    run, served = played(house, settings, shape, [no])

    assert "fake:fake-1 declined to answer (I would rather not.)" in reason(run)
    assert len(served.requests) == 1
    assert Turn.objects.get().faults == 0


def test_an_answer_that_was_declined_without_a_word_is_not_asked_for_again(
    house, bot, settings, shape
):
    run, served = played(house, settings, shape, [Reply("", finish="content_filter")])

    assert "declined to answer (content_filter)" in reason(run)
    assert len(served.requests) == 1


def test_an_answer_cut_by_its_limit_counts_and_the_thread_says_so(
    house, bot, settings, shape
):
    run, _ = played(house, settings, shape, [Reply("It was the", finish="length")])

    assert run.state == "completed"
    kept = Checkpoint.objects.get(run=run).result
    assert kept is not None
    assert kept["output"] == "It was the"
    assert "reached its limit of length" in Entry.objects.get(kind="message").body


def test_a_megabyte_is_shown_up_to_the_limit_with_a_mark(house, bot, settings, shape):
    run, _ = played(house, settings, shape, [Reply("x" * 1_000_000)])

    assert run.state == "completed"
    shown = Entry.objects.get(kind="message").body
    assert len(shown) < settings.OUTPUT_LIMIT + 200
    assert f"{1_000_000 - settings.OUTPUT_LIMIT} characters more" in shown


def test_a_message_without_end_is_let_go(house, bot, settings, shape, monkeypatch):
    monkeypatch.setattr(llm, "LONGEST", 10_000)
    run, served = played(house, settings, shape, [Reply("x" * 1_000_000)])

    assert "wrote more than 10000 characters" in reason(run)
    assert len(served.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 422])
def test_a_key_that_the_server_says_again_is_in_no_row(house, bot, settings, status):
    told = Reply(f"the key {KEY} is bad", status=status)
    run, _ = played(house, settings, "openai-chat", [told])

    assert "the key … is bad" in reason(run)
    assert KEY not in json.dumps(documents.run(run))
    assert KEY not in str(list(Turn.objects.values()))


@pytest.mark.parametrize("limit", ["many", 0, -1, 1.5, [1]])
def test_a_limit_that_is_none_says_so(house, bot, settings, limit):
    Bot.objects.update(limits={"max_tokens": limit})
    run, served = played(house, settings, "openai-chat", [Reply("Hello.")])

    assert "max_tokens in the limits of the bot" in reason(run)
    assert served.requests == []


@pytest.mark.parametrize(
    "words",
    ["fake", "=openai@http://x", "fake=gopher@http://x", "fake=openai-chat@box:80/v1"],
)
def test_a_setting_that_cannot_be_read_fails_at_once_and_is_named(
    house, bot, settings, words
):
    settings.MODELS = [words]

    run = drive.carry(
        spawn_run(factories.workflow(house, factories.prompt("look"))).run
    )

    assert f"the setting MODELS cannot be read at “{words}”" in reason(run)
    assert Turn.objects.get().faults == 0
