"""Named places where a test may end the process.

`THREADWORK_DIE_AT=advance.claimed` ends it there with SIGKILL, the first time only when
`THREADWORK_DIE_ONCE` names a file to be made. Unset, a place costs a look at a dict.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

ARMED = os.environ.get("THREADWORK_DIE_AT", "")
ONCE = os.environ.get("THREADWORK_DIE_ONCE", "")


def reached(name: str) -> None:
    """End this process here, not by an exception, where a test asked for it."""
    if name != ARMED:
        return
    if ONCE:
        try:
            Path(ONCE).touch(exist_ok=False)
        except FileExistsError:
            return
    os.kill(os.getpid(), signal.SIGKILL)
