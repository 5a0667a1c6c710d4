"""Every place that a bot with a model passes, each time that it is passed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kills import World, undisturbed
from tests.talks import ASK, ASKS, SHAPES, TALK, die_once, serving, talks


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_kill_anywhere_in_a_talk_with_a_model_leaves_no_trace(
    world: World, shape: str, settings: Any
):
    with talks(world, shape, settings) as served:
        calm = undisturbed(world, TALK)

        for place in calm.passed:
            die_once(world, TALK, calm, place, served)


@pytest.mark.timeout(1200)
def test_a_kill_anywhere_while_a_bot_asks_people_leaves_one_question(
    world: World, settings: Any
):
    with serving(world, "openai-chat", settings, ASKS) as served:
        calm = undisturbed(world, ASK)

        for place in calm.passed:
            die_once(world, ASK, calm, place, served)
