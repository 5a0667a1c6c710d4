"""States, kinds and spans as a person reads them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from threads.phrases import seconds

STATES = {
    "pending": "pending",
    "running": "running",
    "sleeping": "asleep",
    "waiting": "waiting",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "skipped": "skipped",
}
KINDS = {
    "run_command": "command",
    "dispatch_task": "bot",
    "human_gate": "question",
    "sleep": "sleep",
    "call": "call",
    "query": "query",
    "wait_for_event": "event",
    "run_workflow": "run",
    "open_thread": "room",
}
ICONS = {"asking": "waiting", "waiting": "running"}  # what waits for a bot is at work


@dataclass(frozen=True)
class Chip:
    """A state as a word, an icon and a colour."""

    look: str
    words: str

    @property
    def icon(self) -> str:
        return ICONS.get(self.look, self.look)


def took(began: str | None, ended: str | None) -> str:
    """Say how long something took, in the two largest units that matter."""
    if not began or not ended:
        return ""
    span = datetime.fromisoformat(ended) - datetime.fromisoformat(began)
    return lasted(int(span.total_seconds()))


def lasted(whole: int) -> str:
    if whole < 1:
        return ""
    for size, small, unit, rest in (
        (86_400, 3600, "d", "h"),
        (3600, 60, "h", "min"),
        (60, 1, "min", "s"),
    ):
        if whole >= size:
            more = whole % size // small
            return (
                f"{whole // size} {unit} {more} {rest}"
                if more
                else (f"{whole // size} {unit}")
            )
    return seconds(whole)
