from __future__ import annotations

import pytest

from tests.conftest import Database
from tests.harness import Stack
from tests.load import under_fire


@pytest.mark.timeout(900)
def test_two_hundred_runs_complete_while_workers_die_for_a_minute(
    stack: Stack, server: Database
):
    kills = under_fire(stack, server, runs=200, seconds=60)

    assert kills >= 3
