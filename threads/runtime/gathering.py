"""The files a step names, out of a workspace in which a hostile command may still be.

Nothing is opened by its path: each folder is entered from the one above it, no link is
followed, and what was opened is looked at again before a byte of it is read.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

from django.conf import settings

from threads import artifacts, phrases, text
from threads.artifacts import Haul, Kept, LeftOut
from threads.models import Turn
from threads.runtime import keeping, workspace
from threads.runtime.globs import Globs
from threads.services import Ending

logger = logging.getLogger(__name__)

DEEPEST = 64  # folders
MOST_SEEN = 200_000  # entries looked at
NAME_LENGTH = 500
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without waiting: opening a pipe would, until somebody writes.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotKept(Exception):
    """The file stays where it is, for this reason."""

    def __init__(self, why: str) -> None:
        super().__init__(why)


def gathered(turn: Turn, ending: Ending | None) -> Ending | None:
    """Return the ending with the files that the step names, kept."""
    globs = turn.spec.get("artifacts") or []
    if ending is None or not globs or ending.state == Turn.State.CANCELLED:
        return ending
    haul = Haul(
        house=turn.house_id,
        origin=UUID(turn.spec.get("workspace") or str(turn.thread_id)),
        subject=turn.key,
        step=str(turn.spec.get("step", "")),
    )
    gather = Gather(haul, Globs(globs))
    try:
        gather.take(workspace.folder(turn) / "work")
    except OSError:
        logger.exception("The files of turn %s cannot be read", turn.pk)
        gather.leave(".", said("unreadable"))
    return replace(ending, haul=gather.result())


def single(haul: Haul, path: Path, *, name: str) -> Haul:
    """Return the haul with one file of our own making, kept."""
    gather = Gather(haul, Globs(()))
    gather.measure()
    try:
        with opened(str(path.parent), FOLDER) as folder:
            gather.kept[name] = gather.copy(name, path.name, folder)
    except NotKept as error:
        gather.leave(name, str(error))
    except OSError:
        gather.leave(name, said("unreadable"))
    return gather.result()


@dataclass
class Gather:
    """Takes what the patterns mean, within the caps, and says what it leaves."""

    haul: Haul
    globs: Globs
    kept: dict[str, Kept] = field(default_factory=dict)
    left: list[LeftOut] = field(default_factory=list)
    seen: int = 0
    room: int = 0

    def take(self, work: Path) -> None:
        self.measure()
        with opened(str(work), FOLDER) as root:
            for folder, names, fd in self.walk(root):
                for name in sorted(names):
                    self.consider((*folder, name), name, fd)

    def measure(self) -> None:
        """Find out how much the run may still keep."""
        before = artifacts.kept_bytes(self.haul.origin, but=self.haul.subject)
        self.room = max(settings.ARTIFACTS_SIZE - before, 0)

    def walk(self, root: int) -> Iterator[tuple[tuple[str, ...], list[str], int]]:
        """Yield each folder that may hold something meant, with a descriptor of it."""
        for path, folders, names, fd in os.fwalk(
            ".", dir_fd=root, follow_symlinks=False
        ):
            parts = tuple(part for part in path.split("/") if part != ".")
            links = [name for name in folders if is_link(name, fd)]
            folders[:] = [
                name
                for name in sorted(set(folders) - set(links))
                if len(parts) < DEEPEST and self.globs.leads_on((*parts, name))
            ]
            self.seen += len(folders) + len(names)
            yield parts, [*names, *links], fd
            if self.seen > MOST_SEEN:
                self.leave("/".join(parts) or ".", said("lost"))
                return

    def consider(self, path: tuple[str, ...], name: str, folder: int) -> None:
        if not self.globs.matches(path):
            return
        told = shown("/".join(path))
        try:
            self.refuse_more(told)
            self.kept[told] = kept = self.copy(told, name, folder)
            self.room -= kept.size
        except NotKept as error:
            self.leave(told, str(error))

    def refuse_more(self, told: str) -> None:
        if told in self.kept:
            raise NotKept(said("doubled"))
        if len(self.kept) >= settings.ARTIFACTS_COUNT:
            raise NotKept(said("many", settings.ARTIFACTS_COUNT))

    def copy(self, told: str, name: str, folder: int) -> Kept:
        """Copy one file; raise NotKept for whatever is no plain file of the workspace."""
        looked = look(name, folder)
        most = min(settings.ARTIFACT_SIZE, self.room)
        if looked.st_size > most:
            raise NotKept(self.too_large(looked.st_size))
        try:
            with opened(name, FILE, folder) as file:
                refuse_other(os.fstat(file))
                return keeping.keep(
                    file,
                    artifacts.folder_of(self.haul.origin),
                    name=told,
                    most=most,
                )
        except keeping.TooLarge:
            raise NotKept(self.too_large(most + 1)) from None
        except OSError as error:
            logger.warning("%s is not kept: %s", told, error)
            full = error.errno in {28, 122, 30}  # no space, a quota, read-only
            raise NotKept(said("unwritten" if full else "unreadable")) from None

    def too_large(self, size: int) -> str:
        if size > settings.ARTIFACT_SIZE:
            return said("large", phrases.size(settings.ARTIFACT_SIZE))
        return said("full", phrases.size(settings.ARTIFACTS_SIZE))

    def leave(self, name: str, why: str) -> None:
        self.left.append(LeftOut(shown(name), why))

    def result(self) -> Haul:
        unmet = [LeftOut(shown(name), said("none")) for name in self.globs.unmet]
        left = (*self.left, *unmet)
        return replace(self.haul, kept=tuple(self.kept.values()), left_out=left)


def look(name: str, folder: int) -> os.stat_result:
    """Look at an entry without opening it: an open alone may act on a device."""
    try:
        looked = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        raise NotKept(said("unreadable")) from None
    refuse_other(looked)
    return looked


def refuse_other(looked: os.stat_result) -> None:
    """Refuse all but a plain file with one name; what it is may have changed since."""
    if stat.S_ISLNK(looked.st_mode):
        raise NotKept(said("link"))
    if not stat.S_ISREG(looked.st_mode):
        raise NotKept(said("special"))
    if looked.st_nlink != 1:
        raise NotKept(said("elsewhere"))


def is_link(name: str, folder: int) -> bool:
    try:
        looked = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return True
    return stat.S_ISLNK(looked.st_mode)


@contextmanager
def opened(name: str, flags: int, folder: int | None = None) -> Iterator[int]:
    descriptor = os.open(name, flags, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def shown(path: str) -> str:
    """Return a path as it can be kept and read: one line, no character that acts."""
    readable = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    plain = "".join(c if c.isprintable() else "\ufffd" for c in text.clean(readable))
    return plain[:NAME_LENGTH]


def said(why: str, limit: object = "") -> str:
    return phrases.NOT_KEPT[why].format(limit=limit)
