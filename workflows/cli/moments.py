"""Times and spans the way people say them."""

from __future__ import annotations

from datetime import datetime

from workflows.pulses import span


def read(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp)


def ago(stamp: str | None, *, now: datetime) -> str:
    """Say how long ago a moment was, or how far ahead it is."""
    if stamp is None:
        return "–"
    seconds = (now - read(stamp)).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"


def took(began: str | None, ended: str | None, *, now: datetime) -> str:
    if began is None:
        return "–"
    end = read(ended) if ended else now
    return span((end - read(began)).total_seconds())


def clock(stamp: str) -> str:
    return f"{read(stamp):%H:%M:%S}"


def minute(stamp: str | None) -> str:
    return f"{read(stamp):%a %Y-%m-%d %H:%M} UTC" if stamp else "–"
