"""One log for every process: each line with its role's name before it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

WIDTH = len("worker-steps")
COLOURS = (36, 33, 32, 35, 34, 96, 93, 92)
LIMIT = 10_000_000  # bytes; the file before is kept as well
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


class Log:
    """Write to the terminal, unless quiet, and to a file of the data folder."""

    def __init__(self, stream: TextIO, path: Path, *, quiet: bool) -> None:
        self.stream: TextIO | None = stream
        self.colours = stream.isatty()
        self.path = path
        self.quiet = quiet
        self.names: list[str] = []
        self.size = path.stat().st_size if path.exists() else 0

    def say(self, text: str) -> None:
        """Say something of the whole, even when quiet."""
        self.print(text)
        self.keep(f"up | {text}")

    def note(self, text: str) -> None:
        """Say what is as it should be."""
        self.lines("up", [text])

    def lines(self, name: str, texts: Iterable[str]) -> None:
        for raw in texts:
            text = ESCAPES.sub("", raw)
            if not self.quiet:
                self.print(f"{self.prefix(name)} {text}")
            self.keep(f"{name} | {text}")

    def prefix(self, name: str) -> str:
        text = f"{name:<{WIDTH}} |"
        if not self.colours:
            return text
        if name not in self.names:
            self.names.append(name)
        colour = COLOURS[self.names.index(name) % len(COLOURS)]
        return f"\x1b[{colour}m{text}\x1b[0m"

    def print(self, text: str) -> None:
        """Print without keeping, as for a link that signs somebody in."""
        if self.stream is None:
            return
        try:
            self.stream.write(text + "\n")
            self.stream.flush()
        except (OSError, ValueError):
            self.stream = None  # whoever read it has gone; the work goes on

    def keep(self, text: str) -> None:
        line = (text + "\n").encode(errors="replace")
        if self.size + len(line) > LIMIT:
            self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            self.size = 0
        self.path.touch(mode=0o600)
        with self.path.open("ab") as file:
            file.write(line)
        self.size += len(line)
