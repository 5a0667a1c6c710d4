"""The command and the environment of every role on one machine."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from project import local
from project.embedded import leftovers

WORKERS = {
    # name: pool, how many at once. Steps are quick and forked; the others wait.
    "worker-steps": ("prefork", 2),
    "worker-turns": ("threads", 32),
    "worker-jobs": ("threads", 4),
}
NAMES = ("web", "conductor", "beat", *WORKERS)


def commands(door: int) -> dict[str, list[str]]:
    """Return each role's command; the web role is handed the door's descriptor."""
    # That root runs the workers is for the person who starts `up` to know.
    calm = ["-W", "ignore:You're running the worker with superuser privileges"]
    celery = [sys.executable, *calm, "-m", "celery", "-q", "-A", "project"]
    web = [sys.executable, "-m", "uvicorn", "project.asgi:application"]
    web += ["--fd", str(door), "--no-access-log", "--no-server-header"]
    web += ["--lifespan", "off", "--timeout-graceful-shutdown", "5"]
    scheduler = "django_celery_beat.schedulers:DatabaseScheduler"
    return {
        "web": web,
        "conductor": manage(["conductor"]),
        "beat": [*celery, "beat", "--scheduler", scheduler, "--pidfile="],
        **{name: worker(celery, name) for name in WORKERS},
    }


def worker(celery: list[str], name: str) -> list[str]:
    pool, size = WORKERS[name]
    queue = name.removeprefix("worker-")
    argv = [*celery, "worker", "-P", pool, "-c", str(size), "-Q", queue]
    argv += ["-n", f"{name}@%h", "--without-gossip", "--without-mingle"]
    return [*argv, "--without-heartbeat"]


def manage(arguments: list[str]) -> list[str]:
    return [sys.executable, str(local.BASE_DIR / "manage.py"), *arguments]


def prepare(*, demo: bool) -> list[str]:
    return ["prepare"] if demo else ["prepare", "--no-demo"]


def external() -> dict[str, str]:
    """Return the servers that the environment names: those are not ours to start."""
    names = ("DATABASE_URL", "BROKER_URL")
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def environment(
    folder: Path, url: str, host: str, servers: Mapping[str, str]
) -> dict[str, str]:
    hosts = ["localhost", "127.0.0.1", "[::1]", host, socket.gethostname()]
    return {
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "PUBLIC_URL": url,
        "ALLOWED_HOSTS": ",".join(hosts),
        **os.environ,
        **servers,
        "THREADWORK_DATA": str(folder),
        leftovers.MARK: str(folder),
        "PYTHONUNBUFFERED": "1",
    }
