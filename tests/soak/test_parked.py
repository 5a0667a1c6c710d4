from __future__ import annotations

import pytest

from tests.harness import Stack
from tests.parked import hold_nothing


@pytest.mark.timeout(900)
def test_a_thousand_asleep_and_a_thousand_at_gates_hold_nothing(stack: Stack):
    hold_nothing(stack, each=1000)
