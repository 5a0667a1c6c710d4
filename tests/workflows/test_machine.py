"""A hundred houses in which anything happens; `make soak` plays many more."""

from __future__ import annotations

import pytest

from tests.workflows.play import play


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("posted")
def test_whatever_happens_in_whatever_order_the_promises_hold(settings, monkeypatch):
    play(settings, monkeypatch, examples=100, steps=20, derandomize=True)
