"""What a database's values become in JSON, each kind by one rule. Pure."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from threads import text

LARGEST = text.LARGEST
MOST_DIGITS = 400  # a decimal wider than that is written with its exponent


def plain(value: object) -> Any:
    """Return the value as JSON keeps it; what JSON lacks becomes text."""
    match value:
        case None | bool():
            return value
        case str():
            return text.mended(value)
        case int() | float():
            return number(value)
        case Decimal():
            return decimal(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(bytes(value)).decode("ascii")
        case Mapping():
            return {text.mended(str(key)): plain(item) for key, item in value.items()}
        case _:
            return other(value)


def other(value: object) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return text.mended(moment(value))


def number(value: float) -> float | str:
    """Return a number as JSON keeps it, and as text where it would change there."""
    if isinstance(value, int):
        return value if abs(value) < LARGEST else str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}Infinity"
    return value


def decimal(value: Decimal) -> str:
    """Return a decimal as it is written: its zeros kept, no exponent."""
    if not value.is_finite():
        return str(value)  # NaN, Infinity, -Infinity
    return format(value, "f") if abs(value.adjusted()) < MOST_DIGITS else str(value)


def moment(value: object) -> str:
    """Return a date, a time or a span by ISO 8601, anything else as its own words."""
    match value:
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case timedelta():
            return span(value)
        case _:
            return str(value)


def span(value: timedelta) -> str:
    sign = "-" if value < timedelta(0) else ""
    value = abs(value)
    hours, rest = divmod(value.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    part = f".{value.microseconds:06d}".rstrip("0") if value.microseconds else ""
    days = f"{value.days}D" if value.days else ""
    return f"{sign}P{days}T{hours}H{minutes}M{seconds}{part}S"


def read_json(raw: str | bytes) -> Any:
    """Read a JSON column; a number that a float would change stays as written."""
    return json.loads(raw, parse_float=exact)


def exact(written: str) -> float | str:
    value = float(written)
    same = math.isfinite(value) and Decimal(repr(value)) == Decimal(written)
    return value if same else written


def iso(written: str) -> str:
    """Return a moment that Postgres or MySQL has written, by ISO 8601.

    Infinity, years before Christ or beyond 9999 and zero dates stay as they are written.
    """
    if len(written) < len("2000-01-01 00:00:00") or written[10] != " ":
        return written
    whole = f"{written[:10]}T{written[11:]}"
    return f"{whole[:-3]}Z" if whole.endswith("+00") else whole
