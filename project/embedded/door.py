"""The socket of the web role: bound once, so no other program can slip in between."""

from __future__ import annotations

import errno
import socket

ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


class PortTaken(Exception):
    """The port is taken."""


def bind(host: str, port: int) -> socket.socket:
    """Bind without listening: nobody is let in before the web role is there.

    The socket outlives a web role that dies, so its callers wait instead of failing.
    Raises PortTaken, which names the port.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise PortTaken(f"No such host: {host} ({error.strerror}).") from None
    family, kind, protocol, _, address = found[0]
    door = socket.socket(family, kind, protocol)
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Accepted sockets inherit it; uvicorn sets it only where it bound by itself.
    door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        door.bind(address)
    except OSError as error:
        door.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(
                f"Port {port} on {host} is taken. Choose another with --port, "
                "or let --port 0 find a free one."
            ) from None
        raise PortTaken(f"Cannot use {host}:{port}: {error.strerror}.") from None
    return door


def listens(door: socket.socket) -> bool:
    """Say whether the web role has opened it."""
    host, port = door.getsockname()[:2]
    try:
        socket.create_connection((ANYWHERE.get(host, host), port), timeout=1).close()
    except OSError:
        return False
    return True


def address(door: socket.socket) -> str:
    host, port = door.getsockname()[:2]
    host = ANYWHERE.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
