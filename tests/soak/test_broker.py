from __future__ import annotations

import pytest

from tests import brokers
from tests.harness import Stack
from threads import tenancy


@pytest.mark.timeout(200)
def test_a_broker_that_hangs_for_half_a_minute_loses_no_run(stack: Stack):
    brokers.hang(stack, tenancy.open_house("home", name="Home"), seconds=30)
