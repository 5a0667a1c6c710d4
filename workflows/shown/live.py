"""What a step at work has written so far, as its page shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from threads import shown

LINES = 30
WIDTH = 400  # characters of a line


@dataclass(frozen=True)
class Live:
    """The block at the end of a thread while a bot works."""

    bot: str
    step: str
    words: str


def live(steps: Iterable[Mapping[str, Any]], *, bot: str) -> Live | None:
    """Return the last lines of the step at work, or None where none is."""
    at = next((step for step in steps if step["progress"] is not None), None)
    return Live(bot, at["name"], last_lines(at["progress"])) if at else None


def last_lines(words: str) -> str:
    rows = shown.plain(words).rstrip().split("\n")[-LINES:]
    # A line that was drawn over and over stands as it was drawn last.
    drawn = (row.rstrip("\r").rpartition("\r")[2] for row in rows)
    return "\n".join(row if len(row) <= WIDTH else f"{row[:WIDTH]}…" for row in drawn)
