"""Whoever stands still while others take over changes nothing when it wakes (A37)."""

from __future__ import annotations

import pytest

from tests.kills import Scenario, World, stop_at, stoppable, undisturbed
from tests.scenarios import KINDS, VERBS


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("scenario", [*KINDS, *VERBS], ids=lambda each: each.name)
def test_whoever_stops_at_any_place_wakes_too_late(world: World, scenario: Scenario):
    calm = undisturbed(world, scenario)

    for place in filter(stoppable, calm.passed):
        stop_at(world, scenario, calm, place)
