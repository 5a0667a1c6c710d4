"""A worker killed after each row of a bot's log: nothing is asked or done again (A46, A47)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kills import World, undisturbed
from tests.talks import SHAPES, TALK, die_once, talks


@pytest.mark.timeout(180)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_kill_after_any_row_of_the_log_asks_and_does_nothing_again(
    world: World, shape: str, settings: Any
):
    with talks(world, shape, settings) as served:
        calm = undisturbed(world, TALK)
        assert len(served.requests) == 3
        assert calm.marks.total() == 4
        rows = [place for place in calm.passed if place.name == "log.committed"]
        assert len(rows) == 9

        for place in rows:
            die_once(world, TALK, calm, place, served)
