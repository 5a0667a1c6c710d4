"""Entries of a thread as a terminal shows them: who, when, what, by their kind."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rich.table import Table
from rich.text import Text

from threads.models import Gate
from workflows import documents
from workflows.cli.moments import clock
from workflows.cli.output import Out, safe

HOW_TO_ANSWER = "Answer with `manage.py wf reply {run} TEXT`."
HEAD, TAIL = 12, 24  # lines of a long entry that are shown
AUTHORS = {"system": "dim", "bot": "cyan", "person": "bold green"}
BODIES = {
    "note": "dim",
    "signal": "dim italic",
    "instruction": "bold",
    "answer": "green",
}
SIGNALS = {
    "dispatch.started": "set to work",
    "dispatch.completed": "finished",
    "dispatch.failed": "did not manage",
    "dispatch.cancelled": "was stopped",
}


class Tail:
    """The end of a thread: what has been shown, and the entries after it."""

    def __init__(
        self, out: Out, thread: UUID, *, after: int = 0, hint: str = ""
    ) -> None:
        self.out = out
        self.thread = thread
        self.after = after
        self.hint = hint

    def show_new(self) -> None:
        """Show what came since the last look."""
        found = documents.thread_lines(self.thread, entries=None, after=self.after)
        for entry in found["entries"]:
            self.out.live.print(drawn(entry, pretty=self.out.live.is_terminal))
            if self.hint and self.out.live.is_terminal and self.asks(entry["number"]):
                self.out.notice(self.hint)
            self.after = entry["number"]

    def asks(self, number: int) -> bool:
        """Say whether the entry is a question that is still open."""
        return Gate.objects.filter(
            thread=self.thread, opened_number=number, state=Gate.State.OPEN
        ).exists()


def drawn(entry: dict[str, Any], *, pretty: bool) -> Table | Text:
    """Return an entry as a row on a terminal, as indented text where it is piped."""
    who = entry["author"]
    name = Text(safe(who["name"]).plain, style=AUTHORS.get(who["kind"], ""))
    body = spoken(entry)
    at = Text(clock(entry["created_at"]), style="dim")
    if not pretty:
        return Text.assemble(at, "  ", name, ":", indented(body.plain))
    row = Table.grid(padding=(0, 2), pad_edge=False)
    row.add_column(no_wrap=True)
    row.add_column(no_wrap=True, min_width=8)
    row.add_column(overflow="fold")
    row.add_row(at, name, body)
    return row


def spoken(entry: dict[str, Any]) -> Text:
    style = BODIES.get(entry["kind"], "")
    words = entry["body"]
    if entry["kind"] == "signal":
        signal, _, rest = words.partition("\n")
        name, colon, more = signal.partition(": ")
        said = SIGNALS.get(name, name)
        words = f"{said}{colon}{more}" + (f"\n{rest}" if rest else "")
    return Text(shortened(safe(words).plain), style=style)


def shortened(words: str) -> str:
    lines = words.rstrip().splitlines() or [""]
    if len(lines) > HEAD + TAIL + 1:
        left = len(lines) - HEAD - TAIL
        lines = [*lines[:HEAD], f"… {left} more lines …", *lines[-TAIL:]]
    return "\n".join(lines)


def indented(words: str) -> str:
    lines = words.splitlines()
    if len(lines) < 2:
        return f" {words}"
    return "".join(f"\n    {line}" for line in lines)
