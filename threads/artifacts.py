"""The files that work leaves: their rows, and where their bytes lie."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet, Sum

from threads import phrases
from threads.exceptions import NotFound
from threads.locking import LockedThread
from threads.models import Artifact

NAMED = 5  # files a thread names, kept or not


@dataclass(frozen=True)
class Kept:
    """A file whose bytes are safe, under their own digest."""

    name: str
    size: int
    digest: str


@dataclass(frozen=True)
class LeftOut:
    """A file that is not kept, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class Haul:
    """What one execution leaves: to be recorded in the transaction of its end."""

    house: int
    origin: UUID
    subject: str
    step: str
    kept: tuple[Kept, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def words(self) -> str:
        """Say what is kept and what is not; nothing where there was nothing to do."""
        kept = [f"{file.name} ({phrases.size(file.size)})" for file in self.kept]
        left = [f"{file.name} ({file.why})" for file in self.left_out]
        said = (
            listed(kept, phrases.KEPT, phrases.KEPT_MORE),
            listed(left, phrases.LEFT_OUT, phrases.LEFT_OUT_MORE),
        )
        return " ".join(filter(None, said))


def listed(names: list[str], few: str, many: str) -> str:
    if not names:
        return ""
    shown = ", ".join(names[:NAMED])
    left = len(names) - NAMED
    return many.format(names=shown, count=left) if left > 0 else few.format(names=shown)


def record(haul: Haul, thread: LockedThread | None = None) -> None:
    """Write the rows of what was kept, and say so in the thread where one is given.

    A later try's file takes the place of an earlier one's.
    """
    if thread is not None and (words := haul.words()):
        thread.append(words)
    Artifact.objects.bulk_create(
        [
            Artifact(
                house_id=haul.house,
                origin=haul.origin,
                subject=haul.subject,
                step=haul.step,
                name=file.name,
                size=file.size,
                digest=file.digest,
            )
            for file in haul.kept
        ],
        update_conflicts=True,
        unique_fields=["origin", "subject", "name"],
        update_fields=["size", "digest"],
    )


def of(origin: UUID) -> QuerySet[Artifact]:
    """Return the files of a run, in the order in which they came."""
    return Artifact.objects.filter(origin=origin).order_by("created_at", "name")


def kept_bytes(origin: UUID, *, but: str) -> int:
    """Return how much a run keeps, apart from one execution."""
    rows = Artifact.objects.filter(origin=origin).exclude(subject=but)
    return rows.aggregate(sum=Sum("size"))["sum"] or 0


def folder_of(origin: UUID) -> Path:
    return settings.ARTIFACTS / str(origin)


def opened(artifact: Artifact) -> BinaryIO:
    """Open the bytes of a file; raise NotFound where this machine has them not."""
    path = folder_of(artifact.origin) / artifact.digest
    try:
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")
    except OSError as error:
        raise NotFound(phrases.NO_FILE) from error
