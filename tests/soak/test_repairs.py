"""Case 32: every gap of every kind, repaired by one page view, or by one sweep, alone."""

from __future__ import annotations

import pytest

from tests.acceptance.test_cases_repairs import SIMPLE, WAYS, gaps, repaired
from tests.kills import World, undisturbed


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["command", "prompt", "sleep", "gate"])
def test_one_look_or_one_sweep_moves_any_stuck_run_on(
    world: World, kind: str, way: str
):
    calm = undisturbed(world, SIMPLE[kind])

    for place in gaps(calm):
        repaired(world, SIMPLE[kind], calm, place, WAYS[way])
