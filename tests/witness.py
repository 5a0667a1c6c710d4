"""What `call` steps name in tests: a line for the witness, and ends of a worker."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from pathlib import Path

from django.core.mail.backends.dummy import EmailBackend


def write(line: str) -> str:
    with Path(os.environ["WITNESS"]).open("a") as witness:
        witness.write(f"{line}\n")
    return line


def fail() -> None:
    raise RuntimeError("the line was busy")


def timed(line: str) -> str:
    """Say when, too: nothing may run after its step has been recorded."""
    write(f"{line} {time.time():.6f}")
    return line


def die() -> None:
    """End this worker's process at once, as the kernel does where memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def devour() -> int:
    """Take memory without end, under a limit that this process has put on itself."""
    old = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2 * 1024**3, old[1]))
    try:
        return len(bytearray(8 * 1024**3))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, old)


class DeadlyMail(EmailBackend):
    """Ends the worker that sends with it."""

    def send_messages(self, email_messages: object) -> int:
        die()
        return 0


class HangingMail(EmailBackend):
    """Never comes back, as a server that takes a connection and says nothing."""

    def send_messages(self, email_messages: object) -> int:
        threading.Event().wait()
        return 0
