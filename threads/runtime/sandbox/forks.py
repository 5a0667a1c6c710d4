"""The worker's fork server: started on first use, again when it died."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

from threads.runtime.sandbox.protocol import SandboxBroken

PROGRAM = Path(__file__).with_name("supervisor.py")
TRIES = 3


class ForkServer:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owner = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.control: socket.socket | None = None

    def open_line(self) -> socket.socket:
        """Return a line to a supervisor of its own."""
        ours, theirs = socket.socketpair()
        with theirs, self.lock:
            for _ in range(TRIES):
                try:
                    socket.send_fds(self.running(), [b"+"], [theirs.fileno()])
                except OSError:
                    self.forget()
                else:
                    return ours
        ours.close()
        raise SandboxBroken("The process that starts commands cannot be started.")

    def running(self) -> socket.socket:
        ours = self.owner == os.getpid() and self.process
        if ours and self.control and ours.poll() is None:
            return self.control
        self.forget()
        return self.start()

    def start(self) -> socket.socket:
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            # A session of its own: what kills the worker's group leaves it to see
            # the worker's end, and to end the commands for it.
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(PROGRAM), str(os.getpid())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        self.owner, self.control = os.getpid(), ours
        return ours

    def forget(self) -> None:
        """Let go of a server that died, or of the one a forked worker inherited."""
        if self.control is not None:
            self.control.close()
        if self.process is not None and self.owner == os.getpid():
            self.process.kill()
            self.process.wait()
        self.process = self.control = None

    def pid(self) -> int | None:
        return self.process.pid if self.process else None


server = ForkServer()
# A thread may hold the lock at the moment another one forks.
os.register_at_fork(after_in_child=lambda: server.__init__())  # type: ignore[misc]
