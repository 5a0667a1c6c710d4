"""Keeps one embedded server alive; its slow start runs beside the loop."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Protocol

import psutil

from project.embedded.places import ServerFailed
from project.embedded.servers import Server

AGAIN_SECONDS = 2.0


class Kind(Protocol):
    """What the module of a server offers."""

    def start(self, base: Path) -> Server: ...
    def stop(self, server: Server) -> None: ...


class Keeper:
    """One server: the process that serves now, or the start that is under way."""

    def __init__(self, name: str, base: Path, kind: Kind) -> None:
        self.name = name
        self.base = base
        self.kind = kind
        self.server: Server | None = None
        self.trouble = ""
        self.due = 0.0
        self.thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start or adopt, in a thread: recovery after a crash may take minutes."""
        self.trouble = ""
        self.server = None
        self.thread = threading.Thread(target=self.work, name=self.name, daemon=True)
        self.thread.start()

    def work(self) -> None:
        try:
            self.server = self.kind.start(self.base)
        except (ServerFailed, OSError, psutil.Error) as error:
            self.trouble = str(error)
            self.due = time.monotonic() + AGAIN_SECONDS

    def starting(self) -> bool:
        return self.thread is not None and self.thread.is_alive()

    def look(self) -> str | None:
        """Return what happened since the last look, if anything did."""
        if self.starting():
            return None
        if self.thread:
            self.thread = None
            if self.server:
                return f"{self.name} runs as process {self.server.pid}."
            return f"{self.name} did not start: {self.trouble}"
        if self.server and not self.server.lives():
            self.begin()
            return f"{self.name} ended; starting it again."
        if self.server is None and time.monotonic() >= self.due:
            self.begin()
        return None

    def end(self, *, seconds: float) -> None:
        """Stop the server; leave one that is still starting to the next `up`."""
        if self.thread:
            self.thread.join(seconds)
        if self.server:
            self.kind.stop(self.server)
