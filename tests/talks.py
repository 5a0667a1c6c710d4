"""A bot with a model among scenarios: what it says, and how often it was asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests import factories, models
from tests.kills import Calm, Case, Passed, Scenario, World, die_at
from tests.models import Reply, Served, call
from tests.scenarios import Step, decides, witness
from threads import tenancy
from threads.models import Bot
from threads.runtime.bots import llm

SHAPES = ("openai-chat", "anthropic")
# Where a model has answered and nothing is kept: it may be asked again, once.
ANSWERED = {"log.written"}


def talking(world: World, slug: str) -> list[Step]:
    return [witness("before"), factories.prompt("look", slug), witness("after")]


def model_bot(case: Case) -> None:
    assert llm.__name__  # loaded once, before the processes are forked
    bot, _ = Bot.objects.get_or_create(
        house=case.world.house,
        handle="model",
        defaults={"name": "model", "runtime": "agent", "model": "fake:fake-1"},
    )
    for flow in case.flows:
        flow.bot = bot
        flow.save(update_fields=["bot"])


TALK = Scenario("talk-model", talking, setup=model_bot)
ASK = Scenario("ask-model", talking, decides, setup=model_bot)
ASKS = [
    Reply(calls=(call("ask_person", question="Go on?", kind="approve"),)),
    Reply("Then I go on."),
]


@contextmanager
def talks(world: World, shape: str, settings: Any) -> Iterator[Served]:
    """Serve a model that uses tools twice at once, reports, and answers."""
    first, second = world.mark("one"), world.mark("two")
    said = [
        Reply(
            "I look.",
            calls=(
                call("run_command", command=first),
                call("run_command", command=second),
            ),
        ),
        Reply(calls=(call("report", result={"n": 2}),)),
        Reply("Two marks."),
    ]
    with serving(world, shape, settings, said) as served:
        yield served


@contextmanager
def serving(
    world: World, shape: str, settings: Any, said: list[Reply]
) -> Iterator[Served]:
    tenancy.set_secret(world.house, "MODEL_KEY", "k")
    with models.serve(shape, lambda number: said[number]) as served:
        settings.MODELS = [served.setting]
        yield served


def die_once(
    world: World, scenario: Scenario, calm: Calm, place: Passed, served: Served
) -> None:
    """Kill whoever passes the place; the model is asked no more than it must be."""
    before, least = len(served.requests), 2 if scenario is ASK else 3
    die_at(world, scenario, calm, place)
    asked = len(served.requests) - before
    most = least + 1 if place.name in ANSWERED else least
    assert least <= asked <= most, (place.order(), asked)
    assert served.refused == []
