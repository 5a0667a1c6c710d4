"""What a command prints: one JSON document, or words for people; notices beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import IO, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from threads import text

PLAIN_WIDTH = 100_000  # what is piped is never cut or folded
NARROW = 70  # columns; less than that and times give way to reasons
STATES = {
    "completed": "green",
    "failed": "bold red",
    "cancelled": "dim",
    "running": "cyan",
    "waiting": "bold yellow",
    "sleeping": "blue",
    "skipped": "dim",
    "pending": "dim",
}


class Refusal(Exception):
    """The command was refused; the message names the field and the reason."""


class Out:
    """Where a command speaks: stdout for what was asked, stderr for everything else."""

    def __init__(self, *, stdout: IO[str], stderr: IO[str], as_json: bool) -> None:
        self.as_json = as_json
        self.raw = stdout
        self.console = console(stdout)
        self.aside = console(stderr)

    @property
    def pretty(self) -> bool:
        return self.console.is_terminal

    def document(self, document: object) -> None:
        encoding = getattr(self.raw, "encoding", None) or "utf-8"
        plain = encoding.lower() not in {"utf-8", "utf8"}
        self.write(json.dumps(document, ensure_ascii=plain, indent=2) + "\n")

    def write(self, words: str) -> None:
        self.raw.write(words)
        self.raw.flush()  # a reader who has gone is met here, not when Python ends

    def say(self, *words: Any) -> None:
        """Print a line for people; with --json there is none."""
        if not self.as_json:
            self.console.print(*words)

    def notice(self, words: str) -> None:
        self.aside.print(words)

    @property
    def narrow(self) -> bool:
        return self.console.width < NARROW

    @property
    def live(self) -> Console:
        """Where lines go as they come: beside the document where there is to be one."""
        return self.aside if self.as_json else self.console

    def table(self, titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print rows under titles; the last column takes what room is left."""
        table = Table(box=None, pad_edge=False, header_style="dim")
        for title in titles:
            last = title == titles[-1]
            table.add_column(title, no_wrap=not last, overflow="fold")
        for row in rows:
            table.add_row(
                *(cell if isinstance(cell, Text) else safe(cell) for cell in row)
            )
        if self.as_json:
            return
        if self.pretty:
            self.console.print(table)
            return
        with self.console.capture() as drawn:
            self.console.print(table)
        lines = (line.rstrip() for line in drawn.get().splitlines())
        self.write("".join(f"{line}\n" for line in lines))


def console(stream: IO[str]) -> Console:
    terminal = stream.isatty()
    return Console(
        file=stream,
        force_terminal=terminal,
        color_system="auto" if terminal else None,
        width=None if terminal else PLAIN_WIDTH,
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=not terminal,
    )


def safe(words: object) -> Text:
    """Return words from outside without anything a terminal would act on."""
    return Text(text.ESCAPE.sub("", text.clean(str(words))))


def state(name: str) -> Text:
    return Text(name, style=STATES.get(name, ""))
