from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

from threads.models import Bot, Turn
from threads.runtime.watch import Watch


class Args(BaseModel):
    """What a tool takes; what it does not know it refuses."""

    model_config = ConfigDict(extra="forbid")


class Use(Protocol):
    """Do it, and return the result's row; None where it was interrupted."""

    def __call__(
        self, turn: Turn, args: Any, *, number: int, watch: Watch
    ) -> dict[str, Any] | None: ...


def to_all(bot: Bot) -> bool:
    """Offer a tool to every bot that does not list others."""
    return True


@dataclass(frozen=True)
class Handler:
    """A tool: its name, what a model reads of it, its arguments, and the doing."""

    name: str
    description: str
    args: type[Args]
    use: Use
    offered: Callable[[Bot], bool] = to_all
    about: Callable[[Bot], str] | None = None  # where it reads differently for each
