"""The data folder of one `up`: its lock, its processes.json, and how others find it."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from project import local
from project.embedded import waiting

LOCK = "up.lock"
PROCESSES = "processes.json"
# These work on files, or say what is wrong with servers themselves.
WITHOUT_SERVERS = frozenset(
    [
        "up",
        "demo",
        "help",
        "version",
        "check",
        "makemigrations",
        "squashmigrations",
        "collectstatic",
        "findstatic",
        "diffsettings",
        "startapp",
        "makemessages",
        "compilemessages",
        "test",
    ]
)


class FolderBusy(Exception):
    """Another `up` runs on this data folder."""


@dataclass(frozen=True)
class Running:
    """What processes.json says of an `up` that lives."""

    url: str
    database_url: str | None
    broker_url: str | None
    processes: Mapping[str, int | None]


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the kernel lets go when this process ends.

    Raises FolderBusy, naming the address of the `up` that has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as lock:
        # A reader's look at the lock is over in an instant; another `up` stays.
        if not waiting.until(lambda: taken(lock.fileno(), fcntl.LOCK_EX), seconds=1):
            there = read(folder)
            where = f" at {there.url}" if there else ""
            raise FolderBusy(f"Threadwork is already running on {folder}{where}.")
        yield


def running(folder: Path) -> Running | None:
    """Return the `up` that lives on this folder, or None."""
    try:
        with (folder / LOCK).open() as lock:
            if taken(lock.fileno(), fcntl.LOCK_SH):
                return None  # nobody holds it: whatever the file says is over
    except OSError:
        return None
    return read(folder)


def taken(lock: int, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read(folder: Path) -> Running | None:
    try:
        said = json.loads((folder / PROCESSES).read_text(encoding="utf-8"))
        return Running(
            url=said["url"],
            database_url=said.get("database_url"),
            broker_url=said.get("broker_url"),
            processes=said["processes"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(folder: Path, said: Mapping[str, Any]) -> None:
    """Replace processes.json whole, so that a reader never sees half of it."""
    draft = folder / f"{PROCESSES}.new"
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    draft.replace(folder / PROCESSES)


def clear(folder: Path) -> None:
    (folder / PROCESSES).unlink(missing_ok=True)


def adopt_environment(argv: Sequence[str]) -> None:
    """Let a command use the running `up` of its folder, before settings are read.

    `up --data DIR` names its own folder here. Variables that are set win. A command
    that cannot work without servers ends here with status 1 when there are none.
    """
    command = argv[1] if len(argv) > 1 else "help"
    if command == "up":
        if chosen := data_option(argv[2:]):
            os.environ["THREADWORK_DATA"] = str(Path(chosen).absolute())
        return
    if there := running(local.data_dir()):
        for name, value in (
            ("DATABASE_URL", there.database_url),
            ("BROKER_URL", there.broker_url),
            ("PUBLIC_URL", there.url),
        ):
            if value and not os.environ.get(name):
                os.environ[name] = value
    if needs_servers(command, argv[2:]) and not os.environ.get("DATABASE_URL"):
        sys.exit(
            f"Nothing is running on {local.data_dir()} and DATABASE_URL is not set. "
            "Start everything with `manage.py up`."
        )


def needs_servers(command: str, options: Sequence[str]) -> bool:
    asks_for_help = not {"-h", "--help"}.isdisjoint(options)
    return not (command.startswith("-") or command in WITHOUT_SERVERS or asks_for_help)


def data_option(options: Sequence[str]) -> str | None:
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--data")
    try:
        return parser.parse_known_args(list(options))[0].data or None
    except argparse.ArgumentError:
        return None  # `--data` without a value: the command itself says so
