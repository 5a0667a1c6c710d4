"""Rows as they come: what is kept of them, under caps, and a CSV file of all. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, BinaryIO

from threads import phrases, text
from threads.runtime.queries.order import Caps
from threads.runtime.queries.values import plain

# What a spreadsheet takes for a formula when a text begins with it.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
NUMBERS = (int, float, Decimal)


def headings(names: Iterable[object]) -> tuple[str, ...]:
    """Return a name for each column, every one another: a doubled one gets a number."""
    found: list[str] = []
    for number, name in enumerate(names, 1):
        words = str(text.mended(str(name or ""))) or f"column_{number}"
        again, wanted = 1, words
        while wanted in found:
            again += 1
            wanted = f"{words}_{again}"
        found.append(wanted)
    return tuple(found)


class Sheet:
    """Takes rows, keeps what its caps allow, and writes each to the file."""

    def __init__(
        self, names: Iterable[object], caps: Caps, file: BinaryIO | None
    ) -> None:
        self.columns = headings(names)
        self.caps, self.file = caps, file
        self.rows: list[dict[str, Any]] = []
        self.size = self.read = self.cut = self.written = self.file_rows = 0
        self.weight = 0  # characters read, about
        self.full = False  # nothing more is kept, so that no later row is either
        self.closed = file is None or not self.put(
            map(cell, self.columns, self.columns)
        )

    @property
    def left_out(self) -> int:
        return self.read - len(self.rows)

    def wants_more(self) -> bool:
        """Whether a further row would be kept anywhere."""
        return not (self.full and self.closed)

    def add(self, row: Sequence[object]) -> None:
        """Take one row; it is counted even where nothing of it is kept."""
        self.read += 1
        values = [plain(value) for value in row]
        self.weight += sum(len(v) if isinstance(v, str) else 16 for v in values)
        if not self.full:
            self.full = not self.keep(values)
        if not self.closed:
            self.closed = not self.put(map(cell, row, values))
            self.file_rows += not self.closed

    def keep(self, values: list[Any]) -> bool:
        """Keep the row where the caps allow it."""
        if len(self.rows) >= self.caps.rows:
            return False
        before = self.cut
        short = [self.shortened(value) for value in values]
        row = dict(zip(self.columns, short, strict=True))
        size = len(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace")) + 2
        if self.size + size > self.caps.size:
            self.cut = before
            return False
        self.size += size
        self.rows.append(row)
        return True

    def shortened(self, value: Any) -> Any:
        """Return what is kept of a cell; where it is cut it says how much is missing."""
        if value is None or isinstance(value, bool | int | float):
            return value
        words = value
        if not isinstance(value, str):
            words = json.dumps(value, ensure_ascii=False)
        if len(words) <= self.caps.cell:
            return value
        self.cut += 1
        more = f"{len(words) - self.caps.cell:,}"
        return phrases.QUERY_CUT.format(begin=words[: self.caps.cell], count=more)

    def put(self, cells: Iterable[str]) -> bool:
        """Write a line; False, and nothing of it, where the file would be too large."""
        line = io.StringIO(newline="")
        csv.writer(line).writerow(list(cells))
        raw = line.getvalue().encode("utf-8", "replace")
        if self.file is None or self.written + len(raw) > self.caps.file:
            return False
        self.file.write(raw)
        self.written += len(raw)
        return True


def cell(value: object, kept: Any) -> str:
    """Return a cell of the CSV file, in which no text can pass for a formula.

    Such a text gets an apostrophe before it; numbers are written as they are.
    """
    if kept is None:
        return ""
    words = kept if isinstance(kept, str) else json.dumps(kept, ensure_ascii=False)
    guarded = not isinstance(value, NUMBERS) and words.startswith(FORMULA)
    return f"'{words}" if guarded else words
