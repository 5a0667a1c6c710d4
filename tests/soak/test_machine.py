"""Two thousand houses, drawn anew each time; `MACHINE_EXAMPLES` asks for more."""

from __future__ import annotations

import os

import pytest

from tests.workflows.play import play

EXAMPLES = int(os.environ.get("MACHINE_EXAMPLES", "2000"))


@pytest.mark.timeout(60 + 3 * EXAMPLES)
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("posted")
def test_whatever_happens_in_whatever_order_the_promises_hold(settings, monkeypatch):
    play(settings, monkeypatch, examples=EXAMPLES, steps=30, derandomize=False)
