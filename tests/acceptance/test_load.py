from __future__ import annotations

import pytest

from tests.conftest import Database
from tests.harness import Stack
from tests.load import under_fire


@pytest.mark.timeout(240)
def test_workers_that_keep_dying_under_load_lose_and_repeat_nothing(
    stack: Stack, server: Database
):
    assert under_fire(stack, server, runs=60, seconds=20) >= 1
