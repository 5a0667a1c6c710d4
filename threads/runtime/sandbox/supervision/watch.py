"""Watch over one command from its start until nothing of it is left."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import time
from typing import Any

from threads.runtime.sandbox.supervision import frames, launch, tree
from threads.runtime.sandbox.supervision.buffer import Allowance, Ends
from threads.runtime.sandbox.supervision.launch import Spec
from threads.runtime.sandbox.supervision.line import PIECE, Line
from threads.runtime.sandbox.supervision.mask import Mask
from threads.runtime.sandbox.supervision.record import Hold

TICK = 0.5
SOON = 0.02
HOW = {"cancel": "cancelled", "drain": "interrupted", "lost": "interrupted"}


class Watch:
    def __init__(self, spec: Spec, line: Line, hold: Hold) -> None:
        self.spec, self.line, self.hold = spec, line, hold
        self.began = time.monotonic()
        self.ends = Ends(spec.max_output)
        self.mask = Mask(spec.secrets)
        self.allowance = Allowance(self.began)
        self.status: int | None = None
        self.ending = ""
        self.abandoned = False
        self.kill_at = float("inf")
        self.looked = self.began
        # Kept, since a Popen let go of collects the exit status.
        self.process, self.out = launch.start(spec)
        self.pid = self.process.pid
        self.child = os.pidfd_open(self.pid)
        self.poll = select.poll()
        for fd in (self.out, self.child, line.worker):
            self.poll.register(fd, select.POLLIN)

    def see_out(self) -> dict[str, Any]:
        """Stay until the command and all it started are gone; say how it ended."""
        while not (self.finished() or self.abandoned):
            self.step()
        seconds = time.monotonic() - self.began
        # A sandbox ends with its command; taking it down again is not waited for.
        by_itself = self.spec.depth and not self.abandoned and not self.ending
        if not (by_itself and tree.hollow()):
            tree.end()
        self.drain()
        return self.account(seconds)

    def close(self) -> None:
        # Collected already: a Popen that is let go of must not wait for it again.
        self.process.returncode = self.status or 0
        os.close(self.child)
        os.close(self.out)

    def finished(self) -> bool:
        if self.status is None:
            return False
        # One asked to end may have children that tidy up after it: theirs is the grace.
        return not self.ending or time.monotonic() >= self.kill_at or not tree.reap()

    def step(self) -> None:
        talk = select.POLLOUT if self.line.backlog else 0
        self.poll.register(self.line.sock, select.POLLIN | talk)
        ready = {fd for fd, _ in self.poll.poll(self.patience() * 1000)}
        if self.out in ready:
            self.pump()
        if self.child in ready:
            self.poll.unregister(self.child)
            _, self.status = os.waitpid(self.pid, 0)
        if self.line.sock.fileno() in ready:
            self.hear()
        self.line.flush()
        self.line.gone |= self.line.worker in ready
        self.clock(time.monotonic())

    def patience(self) -> float:
        if self.ending:
            return SOON
        left = TICK
        if self.spec.timeout is not None:
            left = min(left, self.began + self.spec.timeout - time.monotonic())
        return max(left, 0.001)

    def hear(self) -> None:
        for kind, payload in self.line.read():
            if kind == frames.STOP:
                order = json.loads(payload)
                if order["how"] == "lost":
                    self.leave()
                else:
                    self.end(HOW[order["how"]], float(order["grace"]))

    def clock(self, now: float) -> None:
        if self.spec.timeout is not None and now >= self.began + self.spec.timeout:
            self.end("timed_out", self.spec.grace)
        if now >= self.kill_at:
            tree.kill(os.getpid())
        if now >= self.looked + TICK:
            self.looked = now
            if self.hold.evicted():
                self.leave()
        if self.line.gone:
            self.leave()

    def end(self, how: str, grace: float) -> None:
        """Ask the command to end, and see to it after the grace; the first reason stays."""
        if self.ending or self.status is not None:
            return
        self.ending, self.kill_at = how, time.monotonic() + grace
        inside = [
            pid
            for pid, depth in tree.below(os.getpid()).items()
            if depth > self.spec.depth
        ]
        tree.send(inside, signal.SIGTERM)
        tree.send(inside, signal.SIGCONT)

    def leave(self) -> None:
        """Give the command up, unless it has come to its own end by now."""
        if self.status is None and not self.ending:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.status = status
        self.abandoned = self.status is None or bool(self.ending)

    def pump(self) -> bool:
        """Read what the command has said; False where nothing more will come now."""
        try:
            data = os.read(self.out, PIECE)
        except BlockingIOError:
            return False
        if not data:
            with contextlib.suppress(KeyError):
                self.poll.unregister(self.out)
            return False
        self.say(self.mask.feed(data))
        return True

    def say(self, data: bytes) -> None:
        """Keep the two ends of what was said and pass on what the allowance lets."""
        if not data:
            return
        self.ends.add(data)
        if self.line.full or not self.allowance.take(len(data), time.monotonic()):
            return
        if skipped := self.allowance.skipped:
            self.allowance.skipped = 0
            self.line.tell(frames.SKIPPED, str(skipped).encode())
        self.line.tell(frames.OUTPUT, data)

    def drain(self) -> None:
        """Read what is left in the pipe; nobody writes to it any more."""
        while self.pump():
            pass
        self.say(self.mask.flush())

    def account(self, seconds: float) -> dict[str, Any]:
        interrupted = self.abandoned or self.ending == "interrupted"
        code = os.waitstatus_to_exitcode(self.status) if self.status is not None else 0
        return {
            "key": self.spec.key,
            "exit_code": None if self.status is None else shell_code(code),
            "signal": -code if code < 0 else None,
            "timed_out": self.ending == "timed_out",
            "cancelled": self.ending == "cancelled",
            "interrupted": interrupted,
            "head": base64.b64encode(self.ends.head).decode(),
            "tail": base64.b64encode(self.ends.tail).decode(),
            "dropped": self.ends.dropped,
            "seconds": seconds,
        }


def shell_code(code: int) -> int:
    """Return an exit code as a shell says it: 128 and the signal that ended it."""
    return 128 - code if code < 0 else code
