"""What a function that a step calls may ask of its own call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Calling:
    """One try of a step's call.

    The key is the same however often this execution of the step begins: hand it to
    whatever must not act twice.
    """

    run: str
    step: str
    key: str
    attempt: int = 1


_now: ContextVar[Calling | None] = ContextVar("calling", default=None)


def current() -> Calling | None:
    """Return the call this code runs under; None outside a step."""
    return _now.get()


@contextmanager
def under(calling: Calling) -> Iterator[None]:
    token = _now.set(calling)
    try:
        yield
    finally:
        _now.reset(token)
