"""A stand-in for a pooler: many sessions, few backends, handed out by the transaction."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import deque
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

SSL, GSS, CANCEL = 80877103, 80877104, 80877102


def read(link: socket.socket, count: int) -> bytes:
    """Read so many bytes; raise ConnectionError where the peer has gone."""
    data = b""
    while len(data) < count:
        more = link.recv(count - len(data))
        if not more:
            raise ConnectionError("the peer has gone")
        data += more
    return data


def message(link: socket.socket) -> tuple[bytes, bytes]:
    """Read one message: its kind, and all of it."""
    head = read(link, 5)
    return head[:1], head + read(link, struct.unpack("!I", head[1:])[0] - 4)


class Pooler:
    """Speaks just enough of the protocol to stand between psycopg and Postgres.

    The next transaction gets the backend that has been free for longest, so that a
    session that is alone meets another one each time; with `newest` the one just freed.
    """

    def __init__(self, url: str, *, size: int = 2, newest: bool = False) -> None:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        self.server = query.get("host") or (parts.hostname, parts.port or 5432)
        if isinstance(self.server, str):
            self.server = (
                f"{self.server}/.s.PGSQL.{query.get('port') or parts.port or 5432}"
            )
        self.size, self.newest = size, newest
        self.free: deque[socket.socket] = deque()
        self.links: list[socket.socket] = []
        self.settings = b""
        self.change = threading.Condition()
        self.door = socket.create_server(("127.0.0.1", 0))
        port = self.door.getsockname()[1]
        user = quote(parts.username or "postgres")
        self.url = f"postgresql://{user}@127.0.0.1:{port}{parts.path}?sslmode=disable"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.door.accept()
                self.links.append(client)
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            hello = self.greeted(client)
            if hello:
                self.login(client, hello)
                while self.transaction(client):
                    pass

    def greeted(self, client: socket.socket) -> bytes:
        """Return what the client begins with, once it asks for no encryption."""
        while True:
            head = read(client, 8)
            size, code = struct.unpack("!II", head)
            body = read(client, size - 8)
            if code in {SSL, GSS}:
                client.sendall(b"N")
            else:
                return b"" if code == CANCEL else head + body

    def login(self, client: socket.socket, hello: bytes) -> None:
        with self.change:
            while len(self.free) < self.size and not self.settings:
                self.free.append(self.opened(hello))
                if len(self.free) == self.size:
                    self.settings = self.said
        made_up = struct.pack("!cIII", b"K", 12, 4_000_000, 1)
        welcome = struct.pack("!cII", b"R", 8, 0) + self.settings + made_up
        client.sendall(welcome + struct.pack("!cIc", b"Z", 5, b"I"))

    def opened(self, hello: bytes) -> socket.socket:
        kind = socket.AF_UNIX if isinstance(self.server, str) else socket.AF_INET
        link = socket.socket(kind, socket.SOCK_STREAM)
        link.connect(self.server)
        link.sendall(hello)
        self.hello, self.said = hello, b""
        while True:
            kind_of, whole = message(link)
            if kind_of == b"S":
                self.said += whole
            if kind_of == b"Z":
                self.links.append(link)
                return link

    def transaction(self, client: socket.socket) -> bool:
        """Carry one transaction from its first word to its end; False at the goodbye."""
        asked = self.asked(client)
        if asked is None:
            return False
        with self.change:
            self.change.wait_for(lambda: self.free)
            link = self.free.pop() if self.newest else self.free.popleft()
        ended = False
        try:
            while not (ended := self.answered(client, link, asked) == b"I"):
                asked = self.asked(client)
                if asked is None:
                    return False
        finally:
            with self.change:
                if not ended:  # whoever went in the middle takes the backend along
                    link.close()
                    link = self.opened(self.hello)
                self.free.append(link)
                self.change.notify()
        return True

    def asked(self, client: socket.socket) -> bytes | None:
        """Read until the client waits for an answer; None where it has gone."""
        told = b""
        while True:
            try:
                kind, whole = message(client)
            except OSError:
                return None
            if kind == b"X":
                return None
            told += whole
            if kind in {b"Q", b"S"}:
                return told

    def answered(self, client: socket.socket, link: Any, asked: bytes) -> bytes:
        """Pass a question on and its answer back; return the state it leaves."""
        link.sendall(asked)
        answer = b""
        while True:
            kind, whole = message(link)
            answer += whole
            if kind == b"Z":
                client.sendall(answer)
                return whole[-1:]

    def close(self) -> None:
        self.door.close()
        for link in self.links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
            link.close()
