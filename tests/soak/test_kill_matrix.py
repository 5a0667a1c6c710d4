"""The whole matrix: every place, each time that it is passed, in every scenario."""

from __future__ import annotations

import pytest

from tests.kills import Scenario, World, die_at, undisturbed
from tests.scenarios import KINDS, VERBS


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("scenario", [*KINDS, *VERBS], ids=lambda each: each.name)
def test_a_kill_each_time_a_place_is_passed_leaves_no_trace(
    world: World, scenario: Scenario
):
    calm = undisturbed(world, scenario)

    for place in calm.passed:
        die_at(world, scenario, calm, place)
