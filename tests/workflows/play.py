"""Play the state machine on this session's database."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck
from hypothesis.stateful import run_state_machine_as_test

from tests.workflows import machine
from tests.workflows.stage import fuse
from threads import points


def play(
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    *,
    examples: int,
    steps: int,
    derandomize: bool,
) -> None:
    """Play so many houses; the story that breaks one is printed."""
    settings.CALLS = {"act": "quick:tests.workflows.stage.act"}
    settings.TURN_RECLAIMS = 1
    monkeypatch.setattr(points, "ORDERS", "as drawn")
    monkeypatch.setattr(points, "reached", fuse.reached)
    before = machine.ended
    run_state_machine_as_test(
        machine.House,
        settings=hypothesis.settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=derandomize,
            database=None,
            deadline=None,
            # A story is printed as it was drawn: to shorten one takes longer than a test.
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
            print_blob=not derandomize,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert machine.ended >= before + examples
