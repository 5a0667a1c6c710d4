"""What worker and supervisor say to each other: a letter, a length, the bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

HEADER = struct.Struct("!cI")

SPEC = b"S"  # worker: what to run
STOP = b"T"  # worker: end it, with how and the grace
BEGUN = b"B"  # supervisor: from here on the command may have begun
OUTPUT = b"O"  # supervisor: bytes as they come
SKIPPED = b"K"  # supervisor: how many bytes were not passed on
RESULT = b"R"  # supervisor: how it ended
UNFIT = b"U"  # supervisor: bound too tightly by an earlier command; ask another one
FAULT = b"F"  # supervisor: why it could not be begun


def pack(kind: bytes, payload: bytes) -> bytes:
    return HEADER.pack(kind, len(payload)) + payload


class Frames:
    """Puts frames together again from what a socket hands over."""

    def __init__(self) -> None:
        self.held = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        self.held += data
        while len(self.held) >= HEADER.size:
            kind, length = HEADER.unpack_from(self.held)
            end = HEADER.size + length
            if len(self.held) < end:
                return
            payload = bytes(self.held[HEADER.size : end])
            del self.held[:end]
            yield kind, payload
