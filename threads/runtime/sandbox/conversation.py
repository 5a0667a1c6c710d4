"""The worker's side of one command: pass output on, ask whether to stop, wait."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable

from threads.runtime.sandbox import forks, output, records
from threads.runtime.sandbox.protocol import Command, Result, SandboxBroken, Stop
from threads.runtime.sandbox.supervision import frames
from threads.runtime.sandbox.supervision.launch import Spec

ASK_SECONDS = 0.1
PIECE = 262_144
START_SECONDS = 60.0
PATIENCE = 10.0  # beyond what the supervisor promises
TRIES = 3


def hold(
    spec: Spec,
    command: Command,
    *,
    emit: Callable[[str], None],
    stop: Callable[[], Stop | None],
) -> Result:
    """Have a command run and return how it ended.

    Where the line breaks before the command may have begun, it is tried again.
    """
    tries = TRIES
    while tries:
        with forks.server.open_line() as line:
            talk = Conversation(line, command, emit=emit, stop=stop)
            result = talk.hold(spec)
        if result or talk.begun:
            return records.as_asked(result or records.UNKNOWN, talk.asked)
        # There are only so many unfit ones: each leaves when it has said so.
        tries -= not talk.unfit
    raise SandboxBroken


class Conversation:
    def __init__(
        self,
        line: socket.socket,
        command: Command,
        *,
        emit: Callable[[str], None],
        stop: Callable[[], Stop | None],
    ) -> None:
        self.line, self.command = line, command
        self.emit, self.stop = emit, stop
        self.live = output.Live()
        self.frames = frames.Frames()
        self.begun = self.unfit = False
        self.asked: Stop | None = None
        self.ask_at = 0.0
        self.until = time.monotonic() + START_SECONDS

    def hold(self, spec: Spec) -> Result | None:
        """Return the result; None where the line ended without one."""
        # Leaving closes the line, and that alone ends the command.
        self.line.settimeout(START_SECONDS)
        with contextlib.suppress(ConnectionError, TimeoutError):
            self.line.sendall(frames.pack(frames.SPEC, spec.dump()))
            self.line.settimeout(ASK_SECONDS)
            while time.monotonic() < self.until:
                self.ask()
                for kind, payload in self.listen():
                    if result := self.hear(kind, payload):
                        return result
        return None

    def ask(self) -> None:
        if time.monotonic() < self.ask_at:
            return
        asked = self.stop()
        self.ask_at = time.monotonic() + ASK_SECONDS
        if asked and asked is not self.asked and self.asked is not Stop.LOST:
            self.asked = asked
            order = {"how": asked.value, "grace": self.command.grace}
            words = json.dumps(order).encode()
            self.line.sendall(frames.pack(frames.STOP, words))
            self.until = time.monotonic() + self.command.grace + PATIENCE

    def listen(self) -> list[tuple[bytes, bytes]]:
        try:
            data = self.line.recv(PIECE)
        except TimeoutError:
            return []
        if not data:
            raise ConnectionError
        return list(self.frames.feed(data))

    def hear(self, kind: bytes, payload: bytes) -> Result | None:
        if kind == frames.BEGUN:
            self.begin()
        elif kind == frames.OUTPUT:
            self.pass_on(self.live.feed(payload))
        elif kind == frames.SKIPPED:
            self.pass_on(self.live.feed(b"", final=True))
            self.pass_on(f"\n{output.left_out(int(payload))}\n")
        elif kind == frames.UNFIT:
            self.unfit = True
        elif kind == frames.FAULT:
            raise SandboxBroken(payload.decode())
        elif kind == frames.RESULT:
            self.pass_on(self.live.feed(b"", final=True))
            return records.result_of(json.loads(payload))
        return None

    def begin(self) -> None:
        self.begun = True
        limit = self.command.timeout
        if self.asked is None:
            whole = float("inf") if limit is None else limit + self.command.grace
            self.until = time.monotonic() + whole + PATIENCE

    def pass_on(self, words: str) -> None:
        if words:
            self.emit(words)
