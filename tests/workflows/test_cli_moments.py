from __future__ import annotations

from datetime import UTC, datetime

import pytest

from workflows import pulses
from workflows.cli import moments

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0.0 s"),
        (0.04, "0.0 s"),
        (3.21, "3.2 s"),
        (9.99, "10 s"),
        (83, "83 s"),
        (120, "2 min"),
        (7199, "120 min"),
        (7200, "2 h"),
        (3 * 86_400, "3 d"),
    ],
)
def test_a_span_is_said_in_one_unit(seconds, words):
    assert pulses.span(seconds) == words


@pytest.mark.parametrize(
    ("stamp", "words"),
    [
        (None, "–"),
        ("2026-12-01T11:59:59.500Z", "now"),
        ("2026-12-01T11:50:00Z", "10 min ago"),
        ("2026-12-04T12:00:00Z", "in 3 d"),
    ],
)
def test_a_moment_is_said_from_now(stamp, words):
    assert moments.ago(stamp, now=NOON) == words


def test_what_has_not_begun_took_nothing_and_what_goes_on_takes_until_now():
    assert moments.took(None, None, now=NOON) == "–"
    assert moments.took("2026-12-01T11:59:00Z", None, now=NOON) == "60 s"
    assert (
        moments.took("2026-12-01T11:59:00Z", "2026-12-01T11:59:05Z", now=NOON)
        == "5.0 s"
    )
