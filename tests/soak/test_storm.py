"""Roles die at random under load, for SOAK_SECONDS (1200 are the twenty minutes)."""

from __future__ import annotations

import os

import pytest

from tests import storm
from tests.conftest import Database
from tests.harness import Stack

SECONDS = float(os.environ.get("SOAK_SECONDS", "120"))
SEED = int(os.environ.get("SOAK_SEED", "41"))


@pytest.mark.timeout(SECONDS + 600)
def test_deaths_at_random_moments_under_load_lose_and_repeat_nothing(
    stack: Stack, server: Database, capsys: pytest.CaptureFixture[str]
):
    after = storm.blow(stack, server, seconds=SECONDS, seed=SEED)

    with capsys.disabled():
        print(f"\n{SECONDS:.0f} s, seed {SEED}: {storm.figures(after)}")  # noqa: T201
    assert after.done["kill"] >= 1
