"""The supervisor's end of the talk with its worker. It never waits for the worker."""

from __future__ import annotations

import select
import socket

from threads.runtime.sandbox.supervision import frames
from threads.runtime.sandbox.supervision.launch import Spec

PIECE = 65536
BACKLOG = 1024 * 1024


class Line:
    def __init__(self, sock: socket.socket, worker: int) -> None:
        sock.settimeout(0.0)
        self.sock = sock
        self.worker = worker  # pidfd: a forked copy of our socket hides the end of file
        self.frames = frames.Frames()
        self.backlog = bytearray()
        self.early: list[tuple[bytes, bytes]] = []
        self.gone = False

    @property
    def full(self) -> bool:
        return len(self.backlog) > BACKLOG

    def spec(self) -> Spec | None:
        """Wait for what to run; None where the worker went away first."""
        while self.wait(None):
            if heard := self.read():
                self.early = heard[1:]
                return Spec.load(heard[0][1])
        return None

    def stopped(self) -> bool:
        """Return whether the worker wants no command any more before one began."""
        return bool(self.early or self.read()) or self.gone

    def wait(self, seconds: float | None) -> bool:
        """Wait for a word of the worker; False where it is gone."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        poll.register(self.worker, select.POLLIN)
        ready = poll.poll(None if seconds is None else seconds * 1000)
        self.gone |= any(fd == self.worker for fd, _ in ready)
        return not self.gone

    def read(self) -> list[tuple[bytes, bytes]]:
        try:
            data = self.sock.recv(PIECE)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        self.gone |= not data
        return list(self.frames.feed(data))

    def tell(self, kind: bytes, payload: bytes) -> None:
        self.backlog += frames.pack(kind, payload)
        self.flush()

    def flush(self) -> None:
        try:
            while self.backlog and not self.gone:
                del self.backlog[: self.sock.send(self.backlog)]
        except BlockingIOError:
            return
        except OSError:
            self.gone = True

    def finish(self) -> None:
        """Hand over what is left to say; a stopped worker is waited for."""
        poll = select.poll()
        poll.register(self.sock, select.POLLOUT)
        poll.register(self.worker, select.POLLIN)
        while self.backlog and not self.gone:
            self.gone |= any(fd == self.worker for fd, _ in poll.poll())
            self.flush()
