"""Copying a file into the house's keeping: whole or not at all, under its digest."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from threads.artifacts import Kept

PIECE = 1_048_576


class TooLarge(Exception):
    """The file has more bytes than may be kept."""


def keep(source: int, folder: Path, *, name: str, most: int) -> Kept:
    """Copy what a descriptor reads; raise TooLarge, or OSError of the place.

    The same bytes come to lie under the same name however often they are copied, so
    that a death between the copy and the row costs nothing.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f".{uuid4().hex}"
    into = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(into, "wb") as file:
            size, digest = copy(source, file.write, most=most)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(folder / digest)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    return Kept(name, size, digest)


def copy(
    source: int, write: Callable[[bytes], object], *, most: int
) -> tuple[int, str]:
    size, digest = 0, hashlib.sha256()
    while piece := os.read(source, PIECE):
        size += len(piece)
        if size > most:
            raise TooLarge
        digest.update(piece)
        write(piece)
    return size, digest.hexdigest()
