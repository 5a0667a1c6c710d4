"""Every named place, once: whoever passes it is killed, and nobody can tell (A7, C9)."""

from __future__ import annotations

import pytest

from tests.kills import AMONG_REAL_WORKERS, Passed, World, die_at, undisturbed
from tests.scenarios import KINDS, VERBS
from threads import points


@pytest.mark.timeout(300)
def test_a_kill_at_every_place_leaves_no_trace(world: World):
    killed: set[str] = set()
    for scenario in [*KINDS, *VERBS]:
        calm = undisturbed(world, scenario)
        fresh: dict[str, Passed] = {}
        for place in calm.passed:
            if place.name not in killed:
                fresh.setdefault(place.name, place)
        for place in fresh.values():
            die_at(world, scenario, calm, place)
        killed |= fresh.keys()

    assert set(points.PLACES) - killed == AMONG_REAL_WORKERS
