"""Real worker processes on a real broker and database, to be killed at will."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from django.db import close_old_connections, connection

from project.embedded import valkey
from project.embedded.waiting import until
from threads.models import Pulse

ROOT = Path(__file__).resolve().parent.parent
CELERY = ["-m", "celery", "-A", "project", "worker", "--loglevel=INFO"]
QUIET = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
CALLS = (
    "noop=quick:operator.truth,witness=quick:tests.witness.write,"
    "die=quick:tests.witness.die,devour=quick:tests.witness.devour"
)
ROLES: dict[str, list[str]] = {
    "steps": [*CELERY, "-P", "prefork", "-c", "1", "-Q", "steps", *QUIET],
    "turns": [*CELERY, "-P", "threads", "-c", "8", "-Q", "turns", *QUIET],
    "jobs": [*CELERY, "-P", "threads", "-c", "2", "-Q", "jobs", *QUIET],
    "conductor": ["manage.py", "conductor"],
    "beat": ["-m", "celery", "-A", "project", "beat", "--pidfile="],
    "web": ["-m", "uvicorn", "project.asgi:application", "--lifespan", "off"],
}
PULSES = {"steps": "worker-steps", "turns": "worker-turns", "jobs": "worker-jobs"}


def database_url() -> str:
    """Return the address of the test's own database."""
    parts = settings.DATABASES["default"]
    name = connection.settings_dict["NAME"]
    user = parts["USER"] or "postgres"
    if parts["HOST"].startswith("/"):
        return f"postgresql://{user}@/{name}?host={parts['HOST']}"
    word = f":{parts['PASSWORD']}" if parts["PASSWORD"] else ""
    return f"postgresql://{user}{word}@{parts['HOST']}:{parts['PORT'] or 5432}/{name}"


def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


def quiet(seconds: float = 5.0) -> None:
    """Wait until nobody else is in the middle of anything in the test's database.

    What a closed page or a killed worker left running would deadlock with the flush.
    """
    for _ in range(3):
        until(nobody_works, seconds=seconds)
        until(lambda: False, seconds=0.1)


def nobody_works() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT NOT EXISTS (SELECT 1 FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend' AND state <> 'idle')"
        )
        return bool(cursor.fetchone()[0])


class Stack:
    """A broker and the roles a test starts, stops, kills and starts again."""

    def __init__(self, base: Path, *, broker: Any = None, **env: str) -> None:
        self.base = base
        base.mkdir(parents=True, exist_ok=True)
        base.chmod(0o755)
        self.witness.touch()
        self.witness.chmod(0o666)  # commands may run as somebody else
        self.shares = broker is not None
        self.broker = broker or valkey.start(base / "broker")
        self.database_url = database_url()
        self.env = {
            **os.environ,
            "DATABASE_URL": self.database_url,
            "BROKER_URL": self.broker.url,
            "THREADWORK_DATA": str(base),
            "WORKSPACES": str(base / "workspaces"),
            "SECRET_KEY": settings.SECRET_KEY,
            "SANDBOX": "process",
            "CALLS": CALLS,
            "WITNESS": str(self.witness),
            **env,
        }
        self.started: dict[str, subprocess.Popen[bytes]] = {}
        self.ports: dict[str, int] = {}

    @property
    def witness(self) -> Path:
        return self.base / "witness"

    def start(self, *names: str, **env: str) -> None:
        """Start roles by name (`steps`, `steps.2`, …) without waiting for them."""
        for name in names:
            if name in self.started:
                self.started[name].wait(10)  # dead already: collected, never doubled
            role = name.partition(".")[0]
            argv = [sys.executable, *ROLES[role]]
            if role in PULSES:
                argv += ["-n", f"{name}@%h"]
            if role == "web":
                argv += ["--port", str(self.ports.setdefault(name, free_port()))]
            with (self.base / f"{name}.log").open("ab") as log:
                self.started[name] = subprocess.Popen(
                    argv,
                    cwd=ROOT,
                    env={**self.env, **env},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def up(self, *names: str, **env: str) -> None:
        """Start roles and wait until each has a pulse."""
        self.start(*names, **env)
        for name in names:
            self.wait(partial(self.beats, name), 40, f"{name} has no pulse")

    def url(self, web: str) -> str:
        return f"http://127.0.0.1:{self.ports[web]}"

    def beats(self, name: str) -> bool:
        role = name.partition(".")[0]
        mine = Pulse.objects.filter(role=PULSES.get(role, role), dead_at=None)
        family = self.family(self.started[name].pid)
        return any(pulse.process in family for pulse in mine)

    def family(self, pid: int) -> set[int]:
        import psutil  # noqa: PLC0415

        try:
            children = psutil.Process(pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return set()
        return {pid, *(child.pid for child in children)}

    def kill(self, *names: str, number: int = signal.SIGKILL) -> None:
        """Signal whole process groups: SIGKILL unless said otherwise."""
        for name in names:
            process = self.started[name]
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                continue
            if number == signal.SIGKILL:
                process.wait(10)

    def down(self) -> None:
        self.down_roles()
        if not self.shares:
            valkey.stop(self.broker)

    def down_roles(self) -> None:
        for name, process in self.started.items():
            if process.poll() is None:
                self.kill(name, number=signal.SIGCONT)
                self.kill(name)

    def wait(
        self, condition: Callable[[], Any], seconds: float = 30, why: str = ""
    ) -> Any:
        """Wait for a condition on the rows; fail with the logs' ends."""
        found: list[Any] = []

        def holds() -> bool:
            try:
                found[:] = [condition()]
            except psycopg.OperationalError:
                close_old_connections()
                return False
            return bool(found[0])

        if not until(holds, seconds=seconds):
            raise AssertionError(f"{why or 'not in time'}\n{self.logs()}")
        return found[0]

    def mark(self, name: str) -> str:
        """Return a command that leaves a line outside its own workspace."""
        return f'echo "{name}:$THREADWORK_KEY" >> {self.witness}; echo {name}'

    def pause(self, seconds: float) -> None:
        """Let the processes go on for a moment that the test's dice chose."""
        until(lambda: False, seconds=seconds)

    def logs(self, lines: int = 15) -> str:
        return "\n".join(
            f"--- {path.name}\n" + "\n".join(path.read_text().splitlines()[-lines:])
            for path in sorted(self.base.glob("*.log"))
        )

    def marks(self) -> dict[str, int]:
        """Return how often each witness line was written."""
        counts: dict[str, int] = {}
        if self.witness.exists():
            for line in self.witness.read_text().split():
                counts[line] = counts.get(line, 0) + 1
        return counts
