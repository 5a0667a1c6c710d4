"""Secrets out of a stream, whichever way it is cut into pieces. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

MASK = "•••".encode()


class Mask:
    """Replaces secrets before anything of the output is kept, cut or passed on."""

    def __init__(self, secrets: Sequence[str]) -> None:
        # The longest first: one that begins like another is not left half in clear.
        found = sorted({s.encode() for s in secrets if s}, key=len, reverse=True)
        self.secrets = found
        self.pattern = re.compile(b"|".join(re.escape(s) for s in found))
        self.held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what may be said now; what may begin a secret waits for the rest."""
        if not self.secrets:
            return data
        text = self.held + data
        safe = len(text) - self.begun(text)
        said, at = bytearray(), 0
        for match in self.pattern.finditer(text):
            if match.start() >= safe:
                break
            said += text[at : match.start()] + MASK
            at = match.end()
        end = max(at, safe)
        self.held = text[end:]
        return bytes(said + text[at:end])

    def flush(self) -> bytes:
        """Return what was held back; nothing follows that could complete a secret."""
        rest, self.held = self.held, b""
        return self.pattern.sub(MASK, rest) if self.secrets else rest

    def begun(self, text: bytes) -> int:
        """Return how many of the last bytes may be the beginning of a secret."""
        longest = min(len(text), len(self.secrets[0]) - 1)
        return next(
            (
                size
                for size in range(longest, 0, -1)
                if any(
                    len(s) > size and s.startswith(text[-size:]) for s in self.secrets
                )
            ),
            0,
        )
