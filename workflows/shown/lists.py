"""Rows of lists as pages show them, in a constant number of queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from threads import access as thread_access
from threads import shown
from threads.models import Member
from threads.text import one_line
from workflows import access
from workflows.models import RunThread, Workflow
from workflows.shown.chips import KINDS, STATES, Chip, lasted, took


def unclaimed_words(unclaimed: Mapping[str, Any]) -> str:
    """Say what is ready that no worker has taken; nothing where there is none."""
    if not unclaimed["count"]:
        return ""
    since = lasted(int(unclaimed["oldest_seconds"] or 0)) or "a moment"
    return f"{unclaimed['count']} ready for {since}, but no worker has taken it."


def names(user: Any) -> dict[tuple[str, str], str]:
    """Return workflows' names by house and slug, deleted ones included."""
    rows = Workflow.objects.filter(house__in=thread_access.houses(user))
    ordered = rows.order_by("created_at").values_list("house__slug", "slug", "name")
    return {(house, slug): name for house, slug, name in ordered}


def startable(user: Any) -> set[str]:
    """Return the slugs of the houses in which the user may start runs."""
    members = Member.objects.filter(user=user).exclude(role=Member.Role.VIEWER)
    return set(members.values_list("house__slug", flat=True))


def choices(user: Any) -> list[tuple[str, str]]:
    """Return the workflows that the run list can be narrowed to."""
    return sorted({(slug, name) for (_, slug), name in names(user).items()})


def outline(workflow: Workflow) -> list[dict[str, Any]]:
    """Return each step's name and what it does, in a few words."""
    return [
        {
            "name": step["name"],
            "words": one_line(str(said_by(step)), 100),
            "code": step["kind"] in {"run_command", "call", "query"},
        }
        for step in workflow.steps
    ]


def said_by(step: Mapping[str, Any]) -> object:
    for field in ("command", "prompt", "function", "sql", "until"):
        if step.get(field):
            return step[field]
    if "seconds" in step:
        return f"sleep {step['seconds']} s"
    return KINDS.get(step["kind"], step["kind"])


def rows(user: Any, lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return lines of runs with names and chips, in a constant number of queries."""
    found = list(lines)
    called = names(user)
    ids = [line["id"] for line in found if line["state"] == "waiting"]
    asking = {
        str(pk)
        for pk in RunThread.objects.filter(
            run__in=ids, awaiting=True, await_kind=RunThread.Kind.GATE
        ).values_list("pk", flat=True)
    }
    return [
        {
            **line,
            "name": called.get((line["house"], line["workflow"]), line["workflow"]),
            "chip": Chip(
                "asking" if line["id"] in asking else line["state"],
                STATES.get(line["state"], line["state"]),
            ),
            "took": took(line["started_at"], line["finished_at"]),
        }
        for line in found
    ]


@dataclass(frozen=True)
class Waiting:
    """A question that waits and the run that asks it."""

    ask: shown.Ask
    run: UUID | None
    workflow: str


@dataclass(frozen=True)
class Inbox:
    """What waits in the user's houses: for them, and for others."""

    yours: list[Waiting]
    others: list[Waiting]
    may_answer: bool  # in any house at all: a viewer only reads

    @property
    def seen(self) -> list[str]:
        return [one.ask.seen for one in (*self.yours, *self.others)]


def inbox(user: Any, *, limit: int = 50) -> Inbox:
    asks = shown.asks(user, shown.open_gates(user)[:limit])
    threads = [ask.gate.thread_id for ask in asks]
    found = RunThread.objects.filter(thread__in=threads, run__in=access.runs(user))
    runs = {
        thread: (run, name)
        for thread, run, name in found.values_list(
            "thread", "run", "run__workflow__name"
        )
    }
    waiting = [Waiting(ask, *runs.get(ask.gate.thread_id, (None, ""))) for ask in asks]
    return Inbox(
        yours=[one for one in waiting if one.ask.yours],
        others=[one for one in waiting if not one.ask.yours],
        may_answer=bool(startable(user)),
    )
