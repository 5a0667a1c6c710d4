"""Both ends of an output of any length, in memory that does not grow. Pure."""

from __future__ import annotations


class Ends:
    """Keeps the first and the last bytes and counts those between."""

    def __init__(self, limit: int) -> None:
        self.room = limit - limit // 2
        self.reach = limit // 2
        self.head = bytearray()
        self.rest = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        if room := self.room - len(self.head):
            self.head += data[:room]
            data = data[room:]
        self.rest += data
        # Cut rarely: each cut moves what stays.
        if len(self.rest) > 2 * self.reach + 65536:
            del self.rest[: len(self.rest) - self.reach]

    @property
    def tail(self) -> bytes:
        return bytes(self.rest[max(len(self.rest) - self.reach, 0) :])

    @property
    def dropped(self) -> int:
        return self.total - len(self.head) - len(self.tail)


class Allowance:
    """Says how much of a flood is passed on as it comes: a burst, then a trickle."""

    BURST = 256 * 1024
    A_SECOND = 64 * 1024

    def __init__(self, now: float) -> None:
        self.left = float(self.BURST)
        self.since = now
        self.skipped = 0

    def take(self, size: int, now: float) -> bool:
        """Return whether this much may pass; what may not is counted as skipped."""
        grown = self.left + (now - self.since) * self.A_SECOND
        self.left, self.since = min(grown, float(self.BURST)), now
        if size > self.left:
            self.skipped += size
            return False
        self.left -= size
        return True
