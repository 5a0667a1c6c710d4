from __future__ import annotations


class Fault(Exception):
    """Something a later try may find mended: an overload, a lost connection."""

    def __init__(self, message: str, *, seconds: float = 5.0) -> None:
        self.seconds = seconds
        super().__init__(message)
