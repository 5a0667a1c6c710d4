"""The peers as processes: installed in a venv of their own, on our own servers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from project.embedded.waiting import until
from tests.bench.bed import Bed, Line, Witness

PACKAGES = ("absurd-sdk", "absurdctl", "dbos", "celery[redis]")
WORKERS = Path(__file__).with_name("workers")
HOME = Path(
    os.environ.get("PEERS_VENV") or Path(tempfile.gettempdir()) / "threadwork-peers"
)


class NotHere(Exception):
    """A peer cannot be installed or started on this machine."""


def install() -> Path:
    """Return the bin folder of a venv with the peers in it; raise NotHere."""
    done = HOME / ".ready"
    if not done.exists():
        steps = (
            [sys.executable, "-m", "venv", "--clear", str(HOME)],
            [str(HOME / "bin" / "pip"), "install", "--quiet", *PACKAGES],
        )
        for argv in steps:
            ended = subprocess.run(argv, capture_output=True, text=True, check=False)
            if ended.returncode:
                raise NotHere(f"{argv[-1]}: {ended.stderr.strip()[-300:]}")
        done.touch()
    return HOME / "bin"


@dataclass
class Rival:
    """One peer in one mode: its workers, and the process that spawns for it."""

    name: str
    script: str
    url: str
    bin: Path
    base: Path
    argv: tuple[str, ...]
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    desk: subprocess.Popen[str] | None = None

    def __post_init__(self) -> None:
        self.base.mkdir(parents=True, exist_ok=True)
        path = self.base / "witness"
        path.touch()
        self.witness = Witness(path)

    def process(self, *argv: str, **more: Any) -> subprocess.Popen[str]:
        with (self.base / "log").open("ab") as log:
            return subprocess.Popen(
                argv,
                cwd=WORKERS,
                env={
                    "PATH": f"{self.bin}:/usr/bin:/bin",
                    "HOME": str(self.base),
                    "WITNESS": str(self.witness.path),
                    "PEER_URL": self.url,
                },
                text=True,
                start_new_session=True,
                **{"stdout": log, "stderr": log, **more},
            )

    def work(self, count: int) -> None:
        """Start worker processes and wait until each says that it is up."""
        for number in range(count):
            self.started.append(self.process(*self.worker(number)))
        if self.script != "celery_worker":
            self.wait(lambda: len(self.lines("up")) >= count, 60, "is not up")

    def worker(self, number: int) -> list[str]:
        python = str(self.bin / "python")
        if self.script == "celery_worker":
            quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
            celery = [str(self.bin / "celery"), "-A", self.script, "worker", "-Q"]
            return [*celery, "peer", "-P", "prefork", *self.argv, *quiet]
        argv = [word.format(number=number) for word in self.argv]
        return [python, f"{self.script}.py", *argv]

    def order(self, **what: Any) -> int:
        """Have something spawned or woken; return when that began, in nanoseconds."""
        if self.desk is None:
            argv = (str(self.bin / "python"), f"{self.script}.py", "serve")
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self.desk = self.process(*argv, **pipes)
        assert self.desk.stdin is not None
        assert self.desk.stdout is not None
        self.desk.stdin.write(json.dumps(what) + "\n")
        self.desk.stdin.flush()
        answer = self.desk.stdout.readline()
        if not answer:
            raise NotHere(f"{self.name}: {self.last_words()}")
        return int(answer)

    def lines(self, name: str = "") -> list[Line]:
        found = self.witness.lines()
        return [line for line in found if line.name == name] if name else found

    def wait(self, condition: Any, seconds: float, why: str) -> None:
        if not until(condition, seconds=seconds):
            raise NotHere(f"{self.name} {why}: {self.last_words()}")

    def last_words(self) -> str:
        return (self.base / "log").read_text()[-500:]

    def down(self) -> None:
        desk = [self.desk] if self.desk is not None else []
        for process in [*self.started, *desk]:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
        self.started, self.desk = [], None
        self.witness.clear()


def contestants(bed: Bed) -> list[Rival]:
    """Return the peers in the modes that are compared, their tables laid out."""
    bin_ = install()
    base = bed.stack.base / "peers"
    absurd, dbos = database(bed, "absurd"), database(bed, "dbos")
    lay_out_absurd(bin_, absurd)
    socket = bed.stack.broker.url
    made = {
        "Absurd, 8 at once": ("absurd_worker", absurd, ("sync", "8", "0.05")),
        "Absurd, 1 at once": ("absurd_worker", absurd, ("sync", "1", "0.05")),
        "Absurd, async": ("absurd_worker", absurd, ("async", "8", "0.05")),
        "DBOS, no limit": ("dbos_worker", dbos, ("w{number}", "0", "0.05")),
        "DBOS, queue of 8": ("dbos_worker", dbos, ("w{number}", "8", "0.05")),
        "Celery, not durable": ("celery_worker", socket, ("-c", "1")),
    }
    return [
        Rival(name, script, url, bin_, base / name.replace(" ", "-"), argv)
        for name, (script, url, argv) in made.items()
    ]


def database(bed: Bed, name: str) -> str:
    bed.aside.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    bed.aside.execute(f"CREATE DATABASE {name}")
    return bed.stack.database_url.replace("/threadwork?", f"/{name}?")


def lay_out_absurd(bin_: Path, url: str) -> None:
    ended = subprocess.run(
        [bin_ / "absurdctl", "init"],
        env={"PATH": f"{bin_}:/usr/bin:/bin", "ABSURD_DATABASE_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise NotHere(f"absurdctl: {ended.stderr.strip()[-300:]}")


def commits(url: str) -> int:
    """Return what a peer's database has committed, counted by now."""
    with psycopg.connect(url, autocommit=True) as link:
        row = link.execute(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
        return int(row[0]) if row else 0
