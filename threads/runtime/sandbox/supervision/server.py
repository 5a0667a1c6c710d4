"""The fork server: a small process, so that a supervisor costs a fork and no start-up."""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import struct
import sys
import traceback
from pathlib import Path

from threads.runtime.sandbox.supervision import record, tree
from threads.runtime.sandbox.supervision.supervise import After, supervise

STRAYS_AGAIN = 0.1
SPARES = 2  # forked ahead, so that a command does not wait for it
IDLE_SECONDS = 60.0
OOM_SCORE = "500"  # when memory runs out commands go before the worker does
DEAF = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
PID = struct.Struct("!i")


def serve(worker_pid: int) -> None:
    """Keep supervisors waiting for the lines that come in by standard input."""
    # The worker says when to stop; a signal meant for all of a service must not end
    # the commands before the worker has decided about them. A handler, since what is
    # ignored would stay ignored in the commands.
    for number in DEAF:
        signal.signal(number, lambda *_: None)
    worker = os.pidfd_open(worker_pid)
    if os.getppid() != worker_pid:
        return
    tree.adopt_orphans()
    record.machine()
    gc.freeze()
    Server(socket.socket(fileno=0), worker).loop()
    signal.set_wakeup_fd(-1)


class Server:
    def __init__(self, control: socket.socket, worker: int) -> None:
        self.control, self.worker = control, worker
        self.spares: set[int] = set()
        self.supervisors: set[int] = set()
        self.strays = False
        self.leaving = False
        self.news, self.tell = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self.woken, self.waker = socket.socketpair()
        for end in (self.woken, self.waker, self.news):
            end.settimeout(0.0)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.waker.fileno(), warn_on_full_buffer=False)
        self.poll = select.poll()
        for fd in (worker, self.woken.fileno(), self.news.fileno()):
            self.poll.register(fd, select.POLLIN)
        self.poll.register(control.fileno(), 0)  # only that the worker closed it

    def loop(self) -> None:
        # Orphans of a killed supervisor come here, so it stays while one is at work.
        while self.supervisors or self.strays or not self.leaving:
            while len(self.spares) < SPARES and not self.leaving:
                self.fork()
            wait = STRAYS_AGAIN * 1000 if self.strays else None
            ready = {fd for fd, _ in self.poll.poll(wait)}
            if self.news.fileno() in ready:
                self.hear()
            if self.woken.fileno() in ready:
                self.woken.recv(4096)
                self.collect()
            if self.strays:
                self.end_strays()
            if self.worker in ready or self.control.fileno() in ready:
                self.leave()

    def hear(self) -> None:
        """Note who has taken work, and who is free again."""
        with contextlib.suppress(BlockingIOError):
            while True:
                (pid,) = PID.unpack(self.news.recv(PID.size))
                taken, free = self.supervisors, self.spares
                if pid < 0:
                    pid, taken, free = -pid, free, taken
                if pid in free:
                    free.discard(pid)
                    taken.add(pid)

    def leave(self) -> None:
        self.leaving = True
        self.poll.unregister(self.control)
        self.poll.unregister(self.worker)
        self.hear()
        tree.send(self.spares, signal.SIGKILL)

    def fork(self) -> None:
        pid = os.fork()
        if pid:
            self.spares.add(pid)
            return
        status = 1
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            with contextlib.suppress(OSError):
                Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
            status = 0 if self.work() else 1
        except BaseException:  # noqa: BLE001  said, and never back into the server's loop
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(status)

    def work(self) -> bool:
        """Serve one command after another; False where one left something alive."""
        own = os.getpid()
        self.control.settimeout(IDLE_SECONDS)
        while True:
            try:
                word, fds, _, _ = socket.recv_fds(
                    self.control, 1, 1, socket.MSG_CMSG_CLOEXEC
                )
            except TimeoutError:
                return True
            if not (word and fds):
                return True
            self.tell.send(PID.pack(own))
            with socket.socket(fileno=fds[0]) as sock:
                after = supervise(sock, self.worker)
            if after is not After.MORE:
                return after is After.LEAVE
            self.tell.send(PID.pack(-own))

    def collect(self) -> None:
        self.hear()
        with contextlib.suppress(ChildProcessError):
            while pid := (ended := os.waitpid(-1, os.WNOHANG))[0]:
                # One that did not end by itself may leave its command behind.
                self.strays |= pid in self.supervisors and ended[1] != 0
                self.supervisors.discard(pid)
                self.spares.discard(pid)

    def end_strays(self) -> None:
        own = self.supervisors | self.spares
        family = tree.below(os.getpid())
        strays = {pid for pid, depth in family.items() if depth == 1} - own
        for pid in strays:
            tree.kill(pid)
        tree.send(strays, signal.SIGKILL)
        self.strays = bool(strays)
