"""Times as they leave the house: UTC, ISO 8601, Z."""

from __future__ import annotations

from datetime import UTC, datetime


def stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def stamp_or_none(moment: datetime | None) -> str | None:
    return None if moment is None else stamp(moment)


def plain(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
