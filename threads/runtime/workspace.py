"""Where a run's commands work: a folder of its own under this worker's root."""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
from pathlib import Path
from uuid import uuid4

from django.conf import settings

from threads.models import Turn


class NoSource(Exception):
    """The folder or archive a step starts from cannot be used."""


def root_id() -> str:
    """Return the id of this worker's workspace root, made on first use.

    Workers that share the folder share the id, so any of them may go on with a run.
    """
    marker = settings.WORKSPACES / ".root"
    try:
        return marker.read_text().strip()
    except FileNotFoundError:
        settings.WORKSPACES.mkdir(parents=True, exist_ok=True)
    draft = settings.WORKSPACES / f".root.{uuid4().hex}"
    draft.write_text(uuid4().hex)
    try:
        os.link(draft, marker)  # two workers at once: the first one's id stands
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return marker.read_text().strip()


def folder(turn: Turn) -> Path:
    """Return the folder of the run a turn belongs to, or of the thread's own work."""
    name: str = turn.spec.get("workspace") or str(turn.thread_id)
    return settings.WORKSPACES / name


def record_dir(turn: Turn, call: int = 0) -> Path:
    """Return where the end of one command is written down, apart from its files."""
    return folder(turn) / "records" / f"{turn.pk}-{turn.faults}-{call}"


def prepare(turn: Turn) -> Path:
    """Return the working folder, filled the first time: a retry's, or from the source.

    Raises NoSource. Filled aside and renamed: a crash in the middle leaves nothing.
    """
    work = folder(turn) / "work"
    if work.exists():
        return work
    work.parent.mkdir(parents=True, exist_ok=True)
    draft = work.with_name(f"work.{uuid4().hex}")
    source = turn.spec.get("source")
    earlier = settings.WORKSPACES / (turn.spec.get("inherits") or "none") / "work"
    if earlier.is_dir():
        fill(draft, earlier)  # a retry goes on with the files of what it keeps
    elif source:
        fill(draft, find(source))
    else:
        draft.mkdir()
    try:
        draft.rename(work)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
    return work


def find(source: str) -> Path:
    """Return the allowed folder or archive a step names; raise NoSource."""
    for root in settings.SOURCES:
        base = settings.SOURCES_DIR / root
        path = settings.SOURCES_DIR / source
        real = path.resolve()
        if path.exists() and (real == base.resolve() or base.resolve() in real.parents):
            return real
    raise NoSource(f"there is no source “{source}” on this worker")


def fill(draft: Path, source: Path) -> None:
    try:
        if source.is_dir():
            shutil.copytree(source, draft, symlinks=True)
        elif tarfile.is_tarfile(source):
            with tarfile.open(source) as archive:
                archive.extractall(draft, filter="data")
        elif zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as packed:
                packed.extractall(draft)  # noqa: S202  it strips paths itself
        else:
            raise NoSource(f"“{source.name}” is neither a folder nor an archive")
    except (OSError, tarfile.TarError, zipfile.BadZipFile) as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise NoSource(f"“{source.name}” cannot be copied: {error}") from error
