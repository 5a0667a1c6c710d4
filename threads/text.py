"""The one door for text from outside."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

DEEPEST = 100
LARGEST = 10**309  # what jsonb makes of the largest float comes back as an integer

BROKEN = re.compile("[\x00\ud800-\udfff]")
CONTROL = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f]")
ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~])?")
# Titles, links and the like. One that is never closed would swallow what follows,
# so what is left of it loses its escape and is plain text.
TITLE = re.compile(r"\x1b+[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)")
TITLE_OPEN = re.compile(r"\x1b+(?=[\]PX^_])")


class Unclean(ValueError):
    """The value holds something that cannot be kept."""

    code = "malformed"

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"{where}: {reason}" if where else reason)


def clean(text: str) -> str:
    """Return the output of a command, a model or a tool as text that can be kept.

    NUL and lone surrogates stay visible as U+FFFD; other control characters go,
    except tab, the two line ends and the escape that colours start with.
    """
    text = CONTROL.sub("", BROKEN.sub("\ufffd", TITLE.sub("", text)))
    return TITLE_OPEN.sub("", text)


def mended(value: object) -> object:
    """Return a JSON value whose texts can be kept: what is broken becomes U+FFFD."""
    match value:
        case str():
            return BROKEN.sub("\ufffd", value)
        case dict():
            return {mended(key): mended(item) for key, item in value.items()}
        case list():
            return [mended(item) for item in value]
        case _:
            return value


def one_line(text: str, limit: int = 200) -> str:
    """Return the text as one line for a reason, cut with an ellipsis."""
    # Cut generously first: a reason never needs a megabyte of output walked.
    line = " ".join(ESCAPE.sub("", clean(text[: limit * 50])).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def loads(raw: str | bytes, *, where: str) -> object:
    """Parse strict JSON and refuse what could not be kept."""
    try:
        text = raw.decode("utf-8-sig") if isinstance(raw, bytes) else raw
        value: object = json.loads(text, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise Unclean(where, "is not UTF-8 text") from error
    except RecursionError as error:
        raise Unclean(where, f"is nested deeper than {DEEPEST}") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Unclean(where, f"is not JSON: {error.msg} at {place}") from error
    except ValueError as error:
        reason = str(error) if isinstance(error, _Constant) else "a number is too large"
        raise Unclean(where, reason) from error
    refuse(value, where=where)
    return value


def refuse(value: object, *, where: str) -> None:
    """Refuse a JSON value that Postgres could not keep as it is, naming the place."""
    # A stack of our own, since the value may be nested deeper than Python calls.
    pending = [(where, value, 0)]
    while pending:
        place, item, depth = pending.pop()
        if depth > DEEPEST:
            raise Unclean(where, f"is nested deeper than {DEEPEST}")
        if reason := _fault(item):
            raise Unclean(place, reason)
        children = [(at, child, depth + 1) for at, child in _children(place, item)]
        pending.extend(reversed(children))


class _Constant(ValueError):
    """A word of JavaScript that JSON does not have."""


def _no_constant(word: str) -> object:
    raise _Constant(f"holds {word}, which JSON does not have")


def _children(place: str, item: object) -> Iterator[tuple[str, object]]:
    if isinstance(item, dict):
        for key, child in item.items():
            if not isinstance(key, str):
                raise Unclean(place, f"the key {key!r} is not text")
            if reason := _fault(key):
                raise Unclean(place, f"a key {reason}")
            yield (f"{place}.{key}" if place else key), child
    elif isinstance(item, list | tuple):
        for number, child in enumerate(item):
            yield f"{place}[{number}]", child


def _fault(item: object) -> str:
    match item:
        case str():
            return _text_fault(item)
        case bool() | None | dict() | list() | tuple():
            return ""
        case float() if not math.isfinite(item):
            return "holds a number that is not finite"
        case float():
            return ""
        case int():
            return "holds a number that is too large" if abs(item) >= LARGEST else ""
        case _:
            return f"holds a {type(item).__name__}, which is not JSON"


def _text_fault(text: str) -> str:
    broken = BROKEN.search(text)
    if broken is None:
        return ""
    if broken[0] == "\x00":
        return "holds a NUL character"
    return "holds half of a surrogate pair"
