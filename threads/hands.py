"""What this process works on at this moment; its beat extends that and no more.

A row that an unforeseen fault left behind is thus let go when its lease has passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

held: set[UUID] = set()


@contextmanager
def hold(row: UUID) -> Iterator[None]:
    held.add(row)
    try:
        yield
    finally:
        held.discard(row)
