"""Under which user a command runs, and what that user may not reach."""

from __future__ import annotations

import os
import stat
import time
import zlib
from collections.abc import Iterable
from pathlib import Path

# Far from people, services and the ranges containers are given.
FIRST_UID = 1_900_000_000
UIDS = 65_536
COUNT_AGAIN = 5.0
ROUND = 1024  # steady, since supervisors are kept for the same limits
THREADS = 17  # of /proc/<pid>/stat, counted from the field behind the name


def own_uid(workdir: Path) -> int:
    """Return the user of a workspace: commands of other runs are strangers to it."""
    return FIRST_UID + zlib.crc32(os.fsencode(workdir)) % UIDS


def closed_to_others(paths: Iterable[Path]) -> Path | None:
    """Return the first of the paths or of what is above that others cannot read."""
    for path in paths:
        real = path.resolve()
        if not _open_to_all(real, listed=real.is_dir()):
            return real
        if above := closed_above(real):
            return above
    return None


def closed_above(path: Path) -> Path | None:
    """Return the first folder above that others cannot pass."""
    for step in path.resolve().parents:
        if not _open_to_all(step, listed=False):
            return step
    return None


def _open_to_all(path: Path, *, listed: bool) -> bool:
    needed = stat.S_IXOTH | (stat.S_IROTH if listed else 0)
    return path.stat().st_mode & needed == needed


def mapped(uid: int) -> bool:
    """Return whether this container's root can become the user."""
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, _, count = (int(word) for word in line.split())
        if first <= uid < first + count:
            return True
    return False


class Census:
    """Counts what a user already runs: the limit on processes includes it."""

    def __init__(self) -> None:
        self.counted_at = float("-inf")
        self.count = 0

    def of(self, uid: int) -> int:
        now = time.monotonic()
        if now - self.counted_at > COUNT_AGAIN:
            found = sum(_threads(uid))
            self.count, self.counted_at = -(-found // ROUND) * ROUND, now
        return self.count


def _threads(uid: int) -> Iterable[int]:
    with os.scandir("/proc") as entries:
        for entry in entries:
            try:
                if entry.name.isdigit() and entry.stat().st_uid == uid:
                    raw = Path(entry.path, "stat").read_bytes()
                    yield int(raw[raw.rindex(b")") + 2 :].split()[THREADS])
            except OSError:
                continue
