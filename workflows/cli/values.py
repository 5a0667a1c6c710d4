"""Values given on the command line, read strictly and refused by their names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from threads import text
from workflows.cli.output import Refusal
from workflows.durations import read_duration


def clean(options: dict[str, Any]) -> None:
    """Refuse any option whose text could not be kept, before anything is asked."""
    for name, value in options.items():
        if isinstance(value, str):
            text.refuse(value, where=name.removesuffix("_"))


def json_object(raw: str | None, *, where: str) -> dict[str, Any] | None:
    """Read `{"a": 1}`, or `@FILE`, or `@-` for stdin; None where nothing was given."""
    if raw is None:
        return None
    value = json_value(raw, where=where)
    if not isinstance(value, dict):
        raise Refusal(f'{where}: must be a JSON object such as {{"branch": "main"}}')
    return value


def json_value(raw: str, *, where: str) -> object:
    """Read any JSON: `5`, `@FILE`, or `@-` for stdin."""
    words = content(raw[1:], where=where) if raw[:1] == "@" else raw
    return text.loads(words, where=where)


def content(name: str, *, where: str) -> str:
    """Return the text of a file, or of stdin for `-`."""
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refusal(f"{where}: {name} is not UTF-8 text") from None
    except OSError as error:
        raise Refusal(f"{where}: cannot read {name}: {error.strerror}") from None
    except ValueError as error:
        raise Refusal(f"{where}: cannot read {name!r}: {error}") from None


def count(raw: str, *, where: str, most: int, least: int = 1) -> int:
    if (
        raw.isascii()
        and raw.isdigit()
        and least <= int(raw[:9]) <= most
        and len(raw) < 9
    ):
        return int(raw)
    raise Refusal(
        f"{where}: must be a whole number from {least} to {most}, not “{raw}”"
    )


def seconds(raw: str | None, *, where: str) -> float | None:
    if raw is None:
        return None
    try:
        return float(read_duration(raw))
    except ValueError as error:
        raise Refusal(f"{where}: “{raw}” {error}") from None


def one_of(raw: str, choices: list[str], *, where: str) -> str:
    if raw in choices:
        return raw
    raise Refusal(f"{where}: “{raw}” is not one of {', '.join(choices)}")
