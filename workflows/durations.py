"""Durations and moments as people write them: `90`, `90s`, `10m`, `2h`, `3d`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated

from pydantic import BeforeValidator

LONGEST = 36_525 * 86_400  # a hundred years: no date beyond overflows
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
WRITTEN = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([smhd]?)", re.ASCII)
HOW = "must be seconds or a duration such as 90s, 10m, 2h, 3d"


def read_duration(value: object) -> int | float:
    """Return the seconds of a duration, refusing what is none."""
    match value:
        case bool():
            raise ValueError(HOW)
        case int() | float():
            seconds: int | float = value
        case str() if written := WRITTEN.fullmatch(value.strip()):
            seconds = float(written[1]) * UNITS[written[2]]
        case _:
            raise ValueError(HOW)
    if not 0 <= seconds <= LONGEST:  # not a number is refused here too
        raise ValueError("must be from 0 to a hundred years")
    return int(seconds) if seconds == int(seconds) else float(seconds)


def read_span(value: object) -> int | float:
    """Return the seconds of a duration that is not nothing."""
    seconds = read_duration(value)
    if seconds == 0:
        raise ValueError("must be longer than 0 seconds")
    return seconds


def read_moment(text: str) -> datetime:
    """Return a moment written as ISO 8601; without an offset it is UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("must be a moment such as 2027-01-01T09:00:00Z") from error


Duration = Annotated[int | float, BeforeValidator(read_duration)]
Span = Annotated[int | float, BeforeValidator(read_span)]
