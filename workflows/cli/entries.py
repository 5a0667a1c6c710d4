"""Entries of a thread as a terminal shows them: who, when, what, by their kind."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from threads import phrases
from threads.models import Gate
from workflows import documents
from workflows.cli.following import Stream
from workflows.cli.moments import clock
from workflows.cli.output import Out, safe
from workflows.models import RunThread

HOW_TO_ANSWER = "Answer with `manage.py wf reply {run} TEXT`."
HEAD, TAIL = 12, 24  # lines of a long entry that are shown
AUTHORS = {"system": "dim", "bot": "cyan", "person": "bold green"}
BODIES = {
    "note": "dim",
    "signal": "dim italic",
    "instruction": "bold",
    "answer": "green",
}
OUTPUT_ABOVE = "(output above)"


class Tail:
    """The end of a run's thread: what has been shown, and what came after it."""

    def __init__(
        self, out: Out, wait: RunThread, *, after: int = 0, hint: str = ""
    ) -> None:
        self.out = out
        self.run = wait.run_id
        self.thread = wait.thread_id
        self.after = after
        self.hint = hint
        self.stream = Stream()

    @property
    def pretty(self) -> bool:
        return self.out.live.is_terminal

    def show_new(self) -> None:
        """Show what came since the last look."""
        # Before the thread: of a turn that ends meanwhile, the entry has the rest.
        found = self.stream.read(self.run)
        opened = found is not None and found.turn != self.stream.turn
        if found is not None and not opened:
            self.show_lines(self.stream.take(found))
        lines = documents.thread_lines(self.thread, entries=None, after=self.after)
        for entry in lines["entries"]:
            self.show(entry)
            self.after = entry["number"]
        if opened and found is not None:
            # Its lines come at the next look, when the entry that asked for it stands.
            self.stream = Stream(found.turn)

    def show(self, entry: dict[str, Any]) -> None:
        if entry["kind"] == "message" and entry["author"]["kind"] == "bot":
            rest = self.stream.rest(entry["body"])
            if rest is not None:
                self.show_lines(rest)
                entry = {**entry, "kind": "signal", "body": OUTPUT_ABOVE}
        self.out.live.print(drawn(entry, pretty=self.pretty))
        if self.hint and self.pretty and self.asks(entry["number"]):
            self.out.notice(self.hint)

    def show_lines(self, lines: list[str]) -> None:
        for line in lines:
            self.out.live.print(progress(line, pretty=self.pretty))

    def asks(self, number: int) -> bool:
        """Say whether the entry is a question that is still open."""
        return Gate.objects.filter(
            thread=self.thread, opened_number=number, state=Gate.State.OPEN
        ).exists()


def progress(line: str, *, pretty: bool) -> Table | Text:
    """Return a line that a turn has written, before it ended."""
    # A line that was drawn over and over stands as it was drawn last.
    drawn_last = line.rstrip("\r").rpartition("\r")[2]
    words = Text(safe(drawn_last).plain, style="dim")
    if not pretty:
        return Text("    │ ") + words
    bar = Text("│", style="dim", justify="right")
    return in_columns(Text(" " * 8), bar, words)


def drawn(entry: dict[str, Any], *, pretty: bool) -> Table | Text:
    """Return an entry as a row on a terminal, as indented text where it is piped."""
    who = entry["author"]
    name = Text(safe(who["name"]).plain, style=AUTHORS.get(who["kind"], ""))
    body = spoken(entry)
    at = Text(clock(entry["created_at"]), style="dim")
    if pretty:
        return in_columns(at, name, body)
    if entry["kind"] == "signal":
        return Text.assemble(at, "  ", name, " ", body.plain)
    return Text.assemble(at, "  ", name, ":", indented(body.plain))


def in_columns(at: Text, name: Text, body: Text) -> Table:
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
        words = phrases.signal(words)
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
