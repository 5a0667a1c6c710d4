"""A deterministic stand-in for a model: it gathers evidence with real tools.

It needs no key and says what it is. Every move follows from the prompt and the log alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from threads import phrases
from threads.runtime.bots import summing
from threads.runtime.bots.protocol import Brief, Final, Line, Move, ToolCall

TEST = re.compile(r"^FAILED (?P<id>(?P<file>[\w./-]+\.py)::\S+)", re.MULTILINE)
PLACE = re.compile(r"^(?P<file>[\w./-]+\.py):(?P<line>\d+): \w+", re.MULTILINE)
TRACE = re.compile(r"File \"(?P<file>[\w./-]+\.py)\", line (?P<line>\d+)")
ERROR_LINES = re.compile(r"^(?:E  .*|.*(?:Error|Exception)\b.*|.*: not found.*)$", re.M)
AROUND = 12  # lines read before the failing one
MOST_QUOTED = 12


@dataclass(frozen=True)
class Clues:
    """What the prompt names: a failing test, a place in a file, the error itself."""

    test: str
    file: str
    line: int
    errors: tuple[str, ...]


def clues(prompt: str) -> Clues:
    test = TEST.search(prompt)
    places = [*PLACE.finditer(prompt), *TRACE.finditer(prompt)]
    mine = [p for p in places if test is None or p["file"] == test["file"]]
    place = next(iter(mine or places), None)
    errors = ERROR_LINES.findall(prompt)[:MOST_QUOTED]
    return Clues(
        test=test["id"] if test else "",
        file=place["file"] if place else test["file"] if test else "",
        line=int(place["line"]) if place else 1,
        errors=tuple(errors),
    )


def plan(found: Clues) -> list[ToolCall]:
    """Return the tools to use, in order: read the failing file, run the one test."""
    if not found.file:
        return [
            ToolCall(
                "run_command",
                {"command": "ls -la"},
                "Nothing names a file; I look around.",
            )
        ]
    first, last = max(found.line - AROUND, 1), found.line + 3
    file = shlex.quote(found.file)
    moves = [
        ToolCall(
            "run_command",
            {"command": f"cat -n {file} | sed -n '{first},{last}p'"},
            f"Reading {found.file} around line {found.line}.",
        )
    ]
    if found.test:
        test = shlex.quote(found.test)
        command = f"python -m pytest -q -p no:cacheprovider {test}"
        moves.append(
            ToolCall(
                "run_command", {"command": command}, f"Running {found.test} alone."
            )
        )
    return moves


class Scripted:
    name = "scripted"

    def next_move(self, brief: Brief, log: Sequence[Line]) -> Move:
        """Take the next tool of the plan, then report what the tools returned."""
        rows = summing.rows_in(brief.prompt)
        found = clues(brief.prompt)
        moves = summing.plan(rows) if rows else plan(found)
        results = [line for line in log if line.kind == "result"]
        if len(results) < len(moves):
            return moves[len(results)]
        heard = [line.body["text"] for line in log if line.kind == "person"]
        if rows:
            return summary(rows, results[0], heard)
        return Final(
            report(found, moves, results, heard),
            {
                "test": found.test,
                "file": found.file,
                "line": found.line,
                "reproduced": bool(found.test) and not results[-1].body.get("ok", True),
            },
        )


def summary(rows: list[dict[str, Any]], added: Line, heard: list[str]) -> Final:
    """Answer with what the program printed and the rows that it cites."""
    figures = added.body["text"].strip()
    parts = [phrases.SCRIPTED_INTRO, fenced(figures), summing.table(rows)]
    parts += [phrases.HEARD_YOU.format(text=said) for said in heard]
    return Final("\n\n".join(parts), {"figures": figures.splitlines()})


def report(
    found: Clues, moves: list[ToolCall], results: list[Line], heard: list[str]
) -> str:
    """Write the findings with the evidence in them, as Markdown."""
    parts = [phrases.SCRIPTED_INTRO]
    if found.test:
        again = not results[-1].body.get("ok", True)
        told = phrases.REPRODUCED if again else phrases.NOT_REPRODUCED
        parts.append(told.format(test=found.test))
    if found.errors:
        parts.append(fenced("\n".join(found.errors)))
    for move, result in zip(moves, results, strict=False):
        command = move.args["command"]
        parts.append(f"{move.says}\n\n{fenced(f'$ {command}', result.body['text'])}")
    parts += [phrases.HEARD_YOU.format(text=said) for said in heard]
    return "\n\n".join(parts)


def fenced(*texts: str) -> str:
    # A longer fence than any inside keeps quoted output from ending it.
    body = "\n".join(text.rstrip("\n") for text in texts)
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{body}\n{fence}"
