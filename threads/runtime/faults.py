"""What goes wrong with a turn: mended by a later try, or by none."""

from __future__ import annotations


class Fault(Exception):
    """Something a later try may find mended: an overload, a lost connection."""

    def __init__(self, message: str, *, seconds: float = 5.0) -> None:
        self.seconds = seconds
        super().__init__(message)


class Broken(Exception):
    """Something that no later try would find mended: a wrong key, a refusal."""
