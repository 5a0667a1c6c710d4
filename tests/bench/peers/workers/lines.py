"""Leave a line as our own witness does: name, nanoseconds, process."""

from __future__ import annotations

import os
import time

witness = os.open(os.environ["WITNESS"], os.O_WRONLY | os.O_APPEND)


def leave(name: str) -> int:
    at = time.time_ns()
    os.write(witness, f"{name} {at} {os.getpid()}\n".encode())
    return at
