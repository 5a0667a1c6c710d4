"""A bot with a model: one request and one call a row, whatever the model says (A46, A47)."""

from __future__ import annotations

import json

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.usage import RequestUsage

from tests import drive, factories, models
from tests.models import Reply, call
from threads import gates, tenancy
from threads.models import Bot, Entry, Turn, TurnMessage
from threads.runtime import tools
from threads.runtime.bots import llm
from workflows import documents
from workflows.models import Checkpoint, Run
from workflows.services import spawn_run

SHAPES = ("openai-chat", "anthropic", "openai")
KEY = "sk-test-0123456789"


@pytest.fixture(params=SHAPES)
def shape(request):
    return request.param


@pytest.fixture
def bot(house):
    tenancy.set_secret(house, "MODEL_KEY", KEY)
    Bot.objects.filter(house=house).update(
        runtime="agent", model="fake:fake-1", instructions="Be brief."
    )
    return Bot.objects.get(house=house)


def played(house, settings, shape, replies, **step):
    """Carry a run of one prompt through against a model that says these replies."""
    said = list(replies)
    with models.serve(shape, lambda number: said[min(number, len(said) - 1)]) as served:
        settings.MODELS = [served.setting]
        flow = factories.workflow(house, factories.prompt("look", **step))
        run = drive.carry(spawn_run(flow).run)
    return run, served


def result(run):
    return Checkpoint.objects.get(run=run).result or {}


def log(kind=None):
    rows = TurnMessage.objects.exclude(kind="output").order_by("number")
    return [row.body for row in (rows.filter(kind=kind) if kind else rows)]


def test_it_works_with_tools_and_posts_its_answer(house, bot, settings, shape):
    looks = Reply("I look.", calls=(call("run_command", command="echo 41"),))
    run, served = played(house, settings, shape, [looks, Reply("It is **41**.")])

    assert run.state == "completed"
    assert result(run)["output"] == "It is **41**."
    assert Entry.objects.filter(kind="message", body="It is **41**.").count() == 1
    assert [row.kind for row in TurnMessage.objects.exclude(kind="output")] == [
        "model", "call", "result", "model",
    ]  # fmt: skip
    asked = served.requests[1]
    assert "41" in json.dumps((asked.get("messages") or asked["input"])[-1])
    assert len(served.requests) == 2
    assert served.refused == []


def test_the_key_is_the_houses_and_in_no_row(house, bot, settings, shape):
    _, served = played(house, settings, shape, [Reply("Done.")])

    assert served.keys == [f"Bearer {KEY}"]
    rows = [
        *TurnMessage.objects.values_list("body"),
        *Entry.objects.values_list("body"),
    ]
    assert KEY not in str(rows)
    assert KEY not in str(list(Turn.objects.values()))


def test_the_bot_is_told_who_it_is_and_what_it_may_use(house, bot, settings, shape):
    _, served = played(house, settings, shape, [Reply("Done.")])

    asked = json.dumps(served.requests[0])
    assert "Be brief." in asked
    assert "Look into it" in asked
    tools = served.requests[0]["tools"]
    names = {tool.get("name") or tool["function"]["name"] for tool in tools}
    assert {"run_command", "report"} <= names


def test_calls_of_one_message_run_in_order_each_with_its_row(
    house, bot, settings, shape
):
    both = Reply(
        calls=(
            call("run_command", command="echo a > f"),
            call("run_command", command="cat f; echo b"),
        )
    )
    run, served = played(house, settings, shape, [both, Reply("Both ran.")])

    assert run.state == "completed"
    assert [row["text"] for row in log("result")] == ["", "a\nb\n"]
    assert served.refused == []


def test_calls_that_share_an_id_are_told_apart(house, bot, settings, shape):
    twins = Reply(
        calls=(
            call("run_command", command="echo a"),
            call("run_command", command="echo b"),
        ),
        ids=("same", "same"),
    )
    run, served = played(house, settings, shape, [twins, Reply("Fine.")])

    assert run.state == "completed"
    assert [row["text"] for row in log("result")] == ["a\n", "b\n"]
    assert served.refused == []


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("run_command", '{"command": "echo'), "cannot be read"),
        (("run_command", '{"command": 3}'), "command: Input should be a valid string"),
        (("run_command", '{"command": " "}'), "command"),
        (("run_command", '{"command": "true", "sudo": true}'), "sudo"),
        (("run_command", "{}"), "command: Field required"),
        (("make_coffee", "{}"), "There is no tool called “make_coffee”"),
        (("report", '{"result": [1]}'), "result"),
    ],
)
def test_a_call_the_model_got_wrong_is_answered(
    house, bot, settings, shape, asked, told
):
    run, served = played(
        house, settings, shape, [Reply(calls=(asked,)), Reply("I see.")]
    )

    assert run.state == "completed"
    (answer,) = log("result")
    assert answer["ok"] is False
    assert told in answer["text"]
    assert served.refused == []


def test_a_call_cut_off_by_the_limit_is_answered(house, bot, settings, shape):
    cut = Reply("Now", calls=(("run_command", '{"command": "ec'),), finish="length")
    run, served = played(house, settings, shape, [cut, Reply("Shorter.")])

    assert run.state == "completed"
    assert "cut off" in log("result")[0]["text"]
    assert served.refused == []


def test_an_empty_message_is_answered_and_three_end_the_turn(
    house, bot, settings, shape
):
    run, served = played(house, settings, shape, [Reply("")])

    assert run.failure is not None
    assert "answered nothing 3 times" in run.failure["reason"]
    assert len(served.requests) == 3
    assert served.refused == []


def test_a_report_is_the_steps_result_and_the_last_one_counts(
    house, bot, settings, shape
):
    replies = [
        Reply(calls=(call("report", result={"n": 1}),)),
        Reply(calls=(call("report", result={"n": 2}),)),
        Reply("Reported."),
    ]
    run, _ = played(house, settings, shape, replies)

    assert result(run) == {"output": "Reported.", "result": {"n": 2}}


def test_what_text_cannot_hold_is_mended(house, bot, settings, shape):
    odd = Reply(
        "a\x00b\ud800c", calls=(("run_command", '{"command": "echo x\\u0000y"}'),)
    )
    run, served = played(house, settings, shape, [odd, Reply("d\x00e")])

    assert run.state == "completed"
    assert result(run)["output"] == "d\ufffde"
    assert served.refused == []


def test_a_megabyte_of_words_is_kept_within_bounds(house, bot, settings, shape):
    run, _ = played(house, settings, shape, [Reply("x" * 1_000_000)])

    assert run.state == "completed"
    assert len(result(run)["output"]) == settings.OUTPUT_LIMIT


def test_tools_without_end_end_in_words(house, bot, settings, shape):
    settings.TURN_CALLS = 5
    many = Reply(calls=tuple(call("report", result={}) for _ in range(9)))
    run, served = played(house, settings, shape, [many])

    assert run.failure is not None
    assert "used tools more than 5 times" in run.failure["reason"]
    assert "background" in run.failure["reason"]
    assert len(served.requests) == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "wf secret set"),
        (403, "wf secret set"),
        (404, "is not known"),
        (400, "refused the request"),
    ],
)
def test_what_no_retry_mends_fails_at_once_in_words(
    house, bot, settings, shape, status, words
):
    run, served = played(house, settings, shape, [Reply(f"bad {KEY}", status=status)])

    assert run.failure is not None
    assert words in run.failure["reason"]
    assert KEY not in run.failure["reason"]
    assert len(served.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_what_a_retry_may_mend_waits_on_the_row(house, bot, settings, shape, status):
    busy = Reply("busy", status=status, headers={"retry-after": "77"})
    run, served = played(house, settings, shape, [busy])

    turn = Turn.objects.get()
    assert run.state == "waiting"
    assert turn.state == "pending"
    assert turn.faults == 1
    assert turn.ready_at is not None
    assert 60 < (turn.ready_at - turn.created_at).total_seconds() < 90
    assert len(served.requests) == 1


def test_a_line_that_drops_in_the_middle_is_tried_again_whole(
    house, bot, settings, shape
):
    said = [Reply("Half of", drops=True)]
    with models.serve(shape, lambda number: said[0]) as served:
        settings.MODELS = [served.setting]
        flow = factories.workflow(house, factories.prompt("look"))
        run = drive.carry(spawn_run(flow).run)
        assert Turn.objects.get().faults == 1
        assert log() == []
        said[0] = Reply("All of it.")
        Turn.objects.update(ready_at=run.created_at)

        run = drive.carry(run)

    assert run.state == "completed"
    assert result(run)["output"] == "All of it."
    assert served.refused == []


def test_after_the_last_retry_the_turn_fails_in_words(house, bot, settings, shape):
    with models.serve(shape, lambda number: Reply("busy", status=503)) as served:
        settings.MODELS = [served.setting]
        flow = factories.workflow(house, factories.prompt("look"))
        run = spawn_run(flow).run
        for _ in range(3):
            run = drive.carry(run)
            Turn.objects.filter(state="pending").update(ready_at=run.created_at)

    assert run.failure is not None
    assert "could not be reached or was too busy (503: busy)" in run.failure["reason"]
    assert len(served.requests) == 3


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("", "the bot has no model"),
        ("nobody:x", "names no model that can be reached"),
        ("fake:", "names no model"),
        ("gpt", "names no model"),
        ("openai:gpt-5", "wf secret set OPENAI_API_KEY"),
    ],
)
def test_a_bot_set_up_wrongly_says_what_to_do(house, bot, settings, model, words):
    Bot.objects.update(model=model)

    run, served = played(house, settings, "openai-chat", [Reply("Hello.")])

    assert run.failure is not None
    assert words in run.failure["reason"]
    assert served.requests == []


def test_the_tokens_of_each_message_are_kept(house, bot, settings, shape):
    looks = Reply(calls=(call("run_command", command="true"),))
    played(house, settings, shape, [looks, Reply("Done.")])

    used = [row["usage"] for row in log("model")]
    assert [(one["input_tokens"], one["output_tokens"]) for one in used] == [
        (100, 20)
    ] * 2
    assert all(one["cost"] is None for one in used)


def test_another_step_of_the_run_reads_what_it_said(house, bot, settings, shape):
    with models.serve(shape, lambda number: Reply("forty-one")) as served:
        settings.MODELS = [served.setting]
        tell = factories.command("tell", "echo got {{steps.look.output}}")
        flow = factories.workflow(house, factories.prompt("look"), tell)
        run = drive.carry(spawn_run(flow).run)

    told = Checkpoint.objects.get(run=run, name="tell")
    assert run.state == Run.State.COMPLETED
    assert told.result == {"output": "got forty-one\n", "exit_code": 0, "truncated": 0}


def test_the_run_says_what_its_models_have_used(
    house, bot, settings, shape, client, alice
):
    looks = Reply(calls=(call("run_command", command="true"),))
    run, _ = played(house, settings, shape, [looks, Reply("Done.")])

    used = {"requests": 2, "input_tokens": 200, "output_tokens": 40, "cost": None}
    assert documents.run(run)["usage"] == used
    client.force_login(alice)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert "240 tokens in 2 requests" in page


def test_a_run_without_a_model_has_no_usage(house, calls):
    run = drive.carry(
        spawn_run(factories.workflow(house, factories.call("a", "work"))).run
    )

    assert documents.run(run)["usage"] is None


def test_words_of_people_are_heard_at_the_next_message(
    house, bot, settings, shape, alice, monkeypatch
):
    """Spoken while a tool runs: the result first, then the words, as servers want them."""
    use = tools.use

    def interrupted(turn, *args, **more):
        gates.speak(turn.thread_id, person=alice, text="Be quick", door="page")
        return use(turn, *args, **more)

    monkeypatch.setattr(tools, "use", interrupted)
    works = Reply(calls=(call("run_command", command="true"),))
    run, served = played(house, settings, shape, [works, Reply("Quickly done.")])

    assert run.state == "completed"
    assert "Be quick" in json.dumps(served.requests[1])
    assert served.refused == []


def test_arguments_that_are_no_object_are_answered(house, bot, settings):
    listed = Reply(calls=(("run_command", "[1, 2]"),))
    run, served = played(house, settings, "openai-chat", [listed, Reply("I see.")])

    assert run.state == "completed"
    assert "cannot be read" in log("result")[0]["text"]
    assert served.refused == []


def test_a_known_price_becomes_a_cost():
    reply = ModelResponse(
        parts=[TextPart("Hello.")],
        usage=RequestUsage(input_tokens=1000, output_tokens=1000),
        model_name="gpt-4o",
        provider_name="openai",
    )

    used = llm.usage_of(reply)

    assert 0 < used["cost"] < 1
