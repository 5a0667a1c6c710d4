"""Placeholders: `{{path}}` becomes a value. One pass, data only, no escaping."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

OPEN, CLOSE, ESCAPED = "{{", "}}", "\\{{"
NOT_IN_A_PATH = frozenset("{}|()\"'`")
RUN_FIELDS = ("id", "key", "started_at")

Resolve = Callable[[str], object]


class Malformed(ValueError):
    """The text holds a placeholder that cannot be read."""

    def __init__(self, position: int, snippet: str, reason: str) -> None:
        self.position = position
        self.snippet = snippet
        self.reason = reason
        super().__init__(
            f"malformed placeholder “{snippet}” at character {position + 1}: {reason}"
        )


class Unresolved(ValueError):
    """A placeholder names something that has no value."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"“{path}” has no value: {reason}")


@dataclass(frozen=True)
class StepResult:
    """What placeholders may know of an earlier step."""

    state: str
    result: Mapping[str, object] | None = None


Steps = Callable[[str], StepResult | None] | Mapping[str, StepResult]


@dataclass(frozen=True)
class _Placeholder:
    path: str


def check(text: str) -> None:
    """Refuse a malformed placeholder, with its place."""
    for _ in _pieces(text):
        pass


def paths(value: object) -> list[str]:
    """Return every path the value's texts name, as written, in order."""
    return [
        piece.path
        for text in _texts(value)
        for piece in _pieces(text)
        if isinstance(piece, _Placeholder)
    ]


def render_text(text: str, resolve: Resolve) -> str:
    """Return the text with each placeholder replaced by the text of its value."""
    return "".join(
        as_text(resolve(piece.path)) if isinstance(piece, _Placeholder) else piece
        for piece in _pieces(text)
    )


def render_value(value: object, resolve: Resolve) -> object:
    """Return the value with its texts rendered; a lone placeholder keeps its type."""
    match value:
        case str():
            pieces = list(_pieces(value))
            if len(pieces) == 1 and isinstance(pieces[0], _Placeholder):
                return resolve(pieces[0].path)
            return render_text(value, resolve)
        case Mapping():
            return {key: render_value(item, resolve) for key, item in value.items()}
        case list() | tuple():
            return [render_value(item, resolve) for item in value]
        case _:
            return value


def as_text(value: object) -> str:
    """Return a value as it stands in rendered text: text as itself, the rest as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=_plain)


@dataclass(frozen=True)
class Scope:
    """Where a run's placeholders look."""

    payload: object
    run: Mapping[str, object]
    steps: Steps = field(default_factory=dict)

    def resolve(self, path: str) -> object:
        """Return the value at a path, given as written."""
        first, _, rest = path.partition(".")
        match first:
            case "payload":
                return _walk(path, "payload", self.payload, rest)
            case "steps":
                return self._step(path, rest)
            case "run":
                return self._run(path, rest)
            case _:
                return _walk(path, "payload", self.payload, path)

    def _run(self, path: str, rest: str) -> object:
        if rest not in RUN_FIELDS:
            raise Unresolved(path, "a run has id, key and started_at")
        return self.run.get(rest)

    def _step(self, path: str, rest: str) -> object:
        name, _, rest = rest.partition(".")
        steps = self.steps
        step = steps.get(name) if isinstance(steps, Mapping) else steps(name)
        if step is None:
            raise Unresolved(path, f"no step “{name}” has ended before this one")
        if step.state == "skipped":
            raise Unresolved(path, f"step “{name}” was skipped")
        if step.result is None:
            raise Unresolved(path, f"step “{name}” has no result")
        return _walk(path, f"steps.{name}", step.result, rest)


def _walk(path: str, root: str, value: object, rest: str) -> object:
    """Follow keys and indexes only, so that no attribute is ever reached."""
    at = root
    for word in rest.split(".") if rest else ():
        match value:
            case Mapping():
                if word not in value:
                    raise Unresolved(path, f"“{at}” has no “{word}”")
                value = value[word]
            case list() | tuple():
                value = value[_index(path, at, word, len(value))]
            case _:
                raise Unresolved(path, f"“{at}” is {_kind(value)}, without “{word}”")
        at = f"{at}.{word}"
    return value


def _index(path: str, at: str, word: str, length: int) -> int:
    digits = word.isascii() and word.isdigit() and len(word) < 10
    if not digits or int(word) >= length:
        raise Unresolved(path, f"“{at}” is a list of {length}, without “{word}”")
    return int(word)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case str():
            return "text"
        case bool():
            return "true or false"
        case _:
            return "a number"


def _plain(value: object) -> object:
    # A stored result may be held in a read-only mapping, which json does not know.
    return dict(value) if isinstance(value, Mapping) else str(value)


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for item in value.values():
                yield from _texts(item)
        case list() | tuple():
            for item in value:
                yield from _texts(item)
        case _:
            return


def _pieces(text: str) -> Iterator[str | _Placeholder]:
    """Yield literal text and placeholders, left to right."""
    at = 0
    while (start := text.find(OPEN, at)) >= 0:
        if start > at and text[start - 1] == "\\":
            yield text[at : start - 1] + OPEN
            at = start + len(OPEN)
            continue
        if start > at:
            yield text[at:start]
        end = text.find(CLOSE, start + len(OPEN))
        yield _Placeholder(_path(text, start, end))
        at = end + len(CLOSE)
    if at < len(text):
        yield text[at:]


def _path(text: str, start: int, end: int) -> str:
    snippet = text[start : start + 40 if end < 0 else min(end + 2, start + 40)]
    if end < 0:
        raise Malformed(start, snippet, "it is not closed")
    path = text[start + len(OPEN) : end].strip()
    if reason := _path_fault(path):
        raise Malformed(start, snippet, f"{reason}; write {ESCAPED} for plain braces")
    return path


def _path_fault(path: str) -> str:
    words = path.split(".")
    if not path:
        return "it names nothing"
    if any(word != word.strip() or not word for word in words):
        return "a word of its path is missing"
    if bad := next((c for c in path if c in NOT_IN_A_PATH or not c.isprintable()), ""):
        return f"its path holds {bad!r}; only names and dots"
    if words[0] == "steps" and len(words) == 1:
        return "it names no step"
    if words[0] == "run" and ".".join(words[1:]) not in RUN_FIELDS:
        return "a run has id, key and started_at"
    return ""
