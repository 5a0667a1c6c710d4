"""Ids that sort by the time they were made, so that indexes grow at one end."""

from __future__ import annotations

import os
import time
from uuid import UUID


def new_id() -> UUID:
    """Return a UUID of version 7 (RFC 9562): milliseconds, then 74 random bits."""
    stamp = time.time_ns() // 1_000_000
    noise = int.from_bytes(os.urandom(10), "big")
    high = (stamp << 16) | 0x7000 | (noise >> 68)
    low = (0b10 << 62) | (noise & ((1 << 62) - 1))
    return UUID(int=(high << 64) | low)
