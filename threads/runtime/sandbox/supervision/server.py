"""The fork server: a small process, so that a supervisor costs a fork and no start-up."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import traceback

from threads.runtime.sandbox.supervision import tree
from threads.runtime.sandbox.supervision.supervise import supervise

STRAYS_AGAIN = 0.1
DEAF = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def serve(worker_pid: int) -> None:
    """Fork a supervisor for each line that comes in by standard input."""
    # The worker says when to stop; a signal meant for all of a service must not
    # end the commands before the worker has decided about them.
    for number in DEAF:
        signal.signal(number, signal.SIG_IGN)
    worker = os.pidfd_open(worker_pid)
    if os.getppid() != worker_pid:
        return
    tree.adopt_orphans()
    gc.freeze()
    Server(socket.socket(fileno=0), worker).loop()


class Server:
    def __init__(self, control: socket.socket, worker: int) -> None:
        self.control, self.worker = control, worker
        self.supervisors: set[int] = set()
        self.strays = False
        self.leaving = False
        self.woken, waker = socket.socketpair()
        for end in (self.woken, waker):
            end.settimeout(0.0)
        self.waker = waker
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        self.poll = select.poll()
        for fd in (control.fileno(), worker, self.woken.fileno()):
            self.poll.register(fd, select.POLLIN)

    def loop(self) -> None:
        # Orphans of a killed supervisor come here, so it stays while one is at work.
        while self.supervisors or self.strays or not self.leaving:
            ready = {
                fd
                for fd, _ in self.poll.poll(
                    STRAYS_AGAIN * 1000 if self.strays else None
                )
            }
            if self.woken.fileno() in ready:
                self.woken.recv(4096)
                self.collect()
            if self.strays:
                self.end_strays()
            if self.control.fileno() in ready:
                self.accept()
            elif self.worker in ready:
                self.leave()

    def accept(self) -> None:
        try:
            word, fds, _, _ = socket.recv_fds(
                self.control, 1, 1, socket.MSG_CMSG_CLOEXEC
            )
        except OSError:
            word, fds = b"", []
        if not word:
            self.leave()
        for fd in fds:
            with socket.socket(fileno=fd) as line:
                self.fork(line)

    def leave(self) -> None:
        if not self.leaving:
            self.leaving = True
            self.poll.unregister(self.control)
            self.poll.unregister(self.worker)

    def fork(self, line: socket.socket) -> None:
        pid = os.fork()
        if pid:
            self.supervisors.add(pid)
            return
        status = 1
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for end in (self.control, self.woken, self.waker):
                end.close()
            supervise(line, self.worker)
            status = 0
        except BaseException:  # noqa: BLE001  said, and never back into the server's loop
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(status)

    def collect(self) -> None:
        try:
            while pid := (ended := os.waitpid(-1, os.WNOHANG))[0]:
                # One that did not end by itself may leave its command behind.
                self.strays |= pid in self.supervisors and ended[1] != 0
                self.supervisors.discard(pid)
        except ChildProcessError:
            return

    def end_strays(self) -> None:
        family = tree.below(os.getpid())
        strays = {
            pid
            for pid, depth in family.items()
            if depth == 1 and pid not in self.supervisors
        }
        for pid in strays:
            tree.kill(pid)
        tree.send(strays, signal.SIGKILL)
        self.strays = bool(strays)
