"""Times and spans the way people say them."""

from __future__ import annotations

from datetime import datetime

UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def span(seconds: float) -> str:
    """Say a span in its two largest units: 3.2 s, 4 min 5 s, 2 h 10 min, 3 d 4 h."""
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    left = round(seconds)
    for number, (unit, size) in enumerate(UNITS):
        if left >= size:
            below, under = UNITS[number + 1] if number < 2 else ("s", 1)
            rest = left % size // under
            return f"{left // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{left} s"


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
