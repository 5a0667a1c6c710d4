"""Two hundred turns of a slow model at once, in one worker on two cores."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.test_agent_turns import crowd, home, slow
from tests.harness import Stack
from tests.models import Served
from threads.models import House

__all__ = ["home", "slow"]


@pytest.mark.timeout(300)
def test_two_hundred_turns_of_a_slow_model_are_all_answered_each_in_order(
    stack: Stack,
    home: House,
    slow: Served,
    monkeypatch: Any,
):
    crowd(stack, home, slow, monkeypatch, count=200)
