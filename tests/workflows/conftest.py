from __future__ import annotations

from typing import Any

import pytest

from tests import hands


@pytest.fixture
def calls(settings: Any) -> hands.Calls:
    """The function that `work` steps call, fresh for each test."""
    settings.CALLS = {"work": "tests.hands.called"}
    hands.called.seen.clear()
    hands.called.faults = 0
    return hands.called
