"""What a bot's runtime is: from what it was asked and the log to the next move."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from threads.runtime.sandbox.protocol import Stop


@dataclass(frozen=True)
class Line:
    """A line of the turn's log, as the runtime reads it."""

    kind: str
    body: dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """A tool as a model reads of it: what it does, and the JSON schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


def silent(words: str) -> None:
    """Show nobody what is being written."""


def undisturbed() -> Stop | None:
    """Let nothing stop it."""
    return None


@dataclass(frozen=True)
class Brief:
    """What a runtime is asked, and with what it may work."""

    prompt: str
    instructions: str = ""
    model: str = ""
    tools: Sequence[Tool] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    secret: Callable[[str], str] = lambda name: ""
    emit: Callable[[str], None] = silent
    stop: Callable[[], Stop | None] = undisturbed


@dataclass(frozen=True)
class ToolCall:
    """Use this tool; `says` is what the bot says as it does.

    `bad` says why it cannot be used as it was asked: then it is answered with that.
    """

    tool: str
    args: dict[str, Any]
    says: str = ""
    bad: str = ""


@dataclass(frozen=True)
class Final:
    """The answer: what the thread reads and what later steps get."""

    text: str
    result: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Said:
    """A model's whole message: words, any number of calls, and itself as it came.

    Without calls it is the answer, where it says anything.
    """

    text: str
    calls: tuple[ToolCall, ...]
    message: dict[str, Any]
    usage: dict[str, Any]
    finish: str = ""


@dataclass(frozen=True)
class Halted:
    """The work was stopped from outside before anything came of it."""

    why: Stop


Move = ToolCall | Final | Said | Halted


class Runtime(Protocol):
    """A way to answer. It keeps no state: after a crash the log alone goes on.

    Raises Fault for what a later try may find mended, Broken for what none would.
    """

    name: str

    def next_move(self, brief: Brief, log: Sequence[Line]) -> Move: ...
