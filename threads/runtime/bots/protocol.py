"""What a runtime decides: the next move, from nothing but the prompt and the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Line:
    """A line of a turn's log."""

    kind: str
    body: dict[str, Any]


@dataclass(frozen=True)
class ToolCall:
    """Use a tool, saying why."""

    tool: str
    args: dict[str, Any]
    says: str = ""


@dataclass(frozen=True)
class Final:
    """The answer: what the thread reads and what later steps get."""

    text: str
    result: dict[str, Any] = field(default_factory=dict)


Move = ToolCall | Final


class Runtime(Protocol):
    """A way to answer. It keeps no state: after a crash the log alone goes on."""

    name: str

    def next_move(self, prompt: str, log: Sequence[Line]) -> Move: ...
