from __future__ import annotations

import pytest

from tests.harness import Stack
from tests.parked import hold_nothing


@pytest.mark.timeout(180)
def test_runs_that_sleep_or_wait_hold_nothing(stack: Stack):
    hold_nothing(stack, each=100)
