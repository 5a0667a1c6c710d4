"""SQL as it is written: one statement, its first word, its bound names. Pure.

Nothing is parsed, only literals, quoted names and comments are told from the rest, as
each family of databases reads them. What a database forbids is left to it to forbid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DOLLAR = r"(?<![\w$])\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$"
COMMENT = r"/\*.*?\*/"
# What hides a colon or a semicolon, by family. A literal that never ends takes the rest.
HIDDEN = {
    "postgresql": (
        r"(?<![\w$])[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z)",
        r"'(?:[^']|'')*(?:'|\Z)",
        r'"(?:[^"]|"")*(?:"|\Z)',
        DOLLAR,
        r"--[^\n]*",
        r"/\*",  # they nest: read by hand
    ),
    "mysql": (
        r"'(?:[^'\\]|\\.|'')*(?:'|\Z)",
        r'"(?:[^"\\]|\\.|"")*(?:"|\Z)',
        r"`(?:[^`]|``)*(?:`|\Z)",
        r"--(?=\s|\Z)[^\n]*",
        r"\#[^\n]*",
        COMMENT,
    ),
    "sqlite": (
        r"'(?:[^']|'')*(?:'|\Z)",
        r'"(?:[^"]|"")*(?:"|\Z)',
        r"`(?:[^`]|``)*(?:`|\Z)",
        r"\[[^\]]*(?:\]|\Z)",
        r"--[^\n]*",
        r"/\*.*?(?:\*/|\Z)",
    ),
    "": (
        r"'(?:[^']|'')*(?:'|\Z)",
        r'"(?:[^"]|"")*(?:"|\Z)',
        r"--[^\n]*",
        COMMENT,
    ),
}
FAMILIES = tuple(HIDDEN)
ALIKE = {"mariadb": "mysql", "cockroachdb": "postgresql"}
BREAK = re.compile(r"/\*|\*/")


class NotOne(ValueError):
    """The text is not one statement."""


@dataclass(frozen=True)
class Piece:
    """A stretch of the text: plain, hidden (a literal, a comment) or a bound name."""

    kind: str
    text: str


@dataclass(frozen=True)
class Statement:
    """One statement, without the semicolon it may have ended with."""

    pieces: tuple[Piece, ...]

    @property
    def names(self) -> list[str]:
        """Return the bound names, in order, as often as they stand there."""
        return [piece.text for piece in self.pieces if piece.kind == "name"]

    @property
    def words(self) -> list[str]:
        """Return the words outside literals and comments, in lower case."""
        plain = " ".join(p.text for p in self.pieces if p.kind == "plain")
        return [word.lower() for word in re.findall(r"[A-Za-z_]\w*", plain)]


def read(sql: str, family: str) -> Statement:
    """Take a text apart; raise NotOne where it is empty or more than one statement."""
    pieces: list[Piece] = []
    ended = False
    for piece in split(sql, ALIKE.get(family, family)):
        if piece.kind == "end":
            ended = True
        elif not ended:
            pieces.append(piece)
        elif piece.text.strip() and not comment(piece):
            raise NotOne("holds more than one statement; a query is one")
    if not any(piece.text.strip() and not comment(piece) for piece in pieces):
        raise NotOne("holds no statement")
    return Statement(tuple(pieces))


def is_one(sql: str, family: str) -> bool:
    try:
        read(sql, family)
    except NotOne:
        return False
    return True


def bound_anyhow(sql: str) -> list[str]:
    """Return the names that are bound whichever database reads the text."""
    readings = [
        {piece.text for piece in split(sql, family) if piece.kind == "name"}
        for family in FAMILIES
    ]
    return sorted(set.intersection(*readings))


def mentioned(sql: str, name: str) -> bool:
    """Whether a text could bind the name at all."""
    return re.search(rf":{re.escape(name)}\b", sql) is not None


def comment(piece: Piece) -> bool:
    return piece.kind == "hidden" and piece.text.startswith(("--", "/*", "#"))


@lru_cache
def pattern(family: str) -> re.Pattern[str]:
    hidden = "|".join(HIDDEN.get(family, HIDDEN[""]))
    return re.compile(
        rf"(?P<hidden>{hidden})|(?P<end>;)|(?<![:\w$]):(?P<name>[A-Za-z_]\w*)",
        re.DOTALL,
    )


def split(sql: str, family: str) -> Iterator[Piece]:
    """Yield the pieces of a text, each semicolon as an `end`."""
    at = 0
    found = pattern(family).search(sql)
    while found is not None:
        if found.start() > at:
            yield Piece("plain", sql[at : found.start()])
        at = found.end()
        if found["hidden"] == "/*":
            at = nested(sql, found.start())
        kind = found.lastgroup if found.lastgroup != "tag" else "hidden"
        text = found["name"] or sql[found.start() : at]
        yield Piece(kind or "hidden", text)
        found = pattern(family).search(sql, at)
    if at < len(sql):
        yield Piece("plain", sql[at:])


def nested(sql: str, at: int) -> int:
    """Return where a comment ends that may hold others."""
    depth = 0
    for found in BREAK.finditer(sql, at):
        depth += 1 if found[0] == "/*" else -1
        if not depth:
            return found.end()
    return len(sql)
