"""`manage.py up` from outside, with every real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from project import local
from project.embedded import leftovers, places, roles, waiting
from tests.project import bases

START_SECONDS = 90
SERVERS = ("postgres", "broker")


class Up:
    """One `up` as a person starts it, on a folder and a port of its own."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.process: subprocess.Popen[bytes] | None = None
        self.printed = data.parent / "printed"

    def start(self, *words: str) -> None:
        argv = [sys.executable, "manage.py", "up", "--data", str(self.data)]
        with self.printed.open("wb") as printed:
            self.process = subprocess.Popen(
                [*argv, "--port", "0", *words],
                cwd=local.BASE_DIR,
                env=environment(),
                stdout=printed,
                stderr=printed,
            )
        assert waiting.until(self.serves, seconds=START_SECONDS), self.output()

    def serves(self) -> bool:
        assert self.process
        assert self.process.poll() is None, self.output()
        return "Threadwork is running at" in self.output()

    def output(self) -> str:
        return self.printed.read_text()

    def said(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads((self.data / "processes.json").read_text())
        return said

    def pids(self) -> Mapping[str, int]:
        pids: Mapping[str, int] = self.said()["processes"]
        return pids

    def restarted(self, before: Mapping[str, int]) -> bool:
        now = self.pids()
        return all(now[name] not in {None, pid} for name, pid in before.items())

    def end(self) -> int:
        assert self.process
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


def environment(**more: str) -> dict[str, str]:
    named = {"DATABASE_URL", "BROKER_URL", "THREADWORK_DATA", "PUBLIC_URL"}
    return {k: v for k, v in os.environ.items() if k not in named} | more


def manage(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=local.BASE_DIR,
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def living(pids: Mapping[str, int]) -> set[str]:
    return {name for name, pid in pids.items() if lives(pid)}


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=5):  # noqa: S310
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


@contextmanager
def stack() -> Iterator[Up]:
    with bases.base(below="stack") as folder:
        up = Up(folder / "data")
        try:
            yield up
        finally:
            if up.process and up.process.poll() is None:
                up.process.kill()
                up.process.wait()
            for left in leftovers.marked(up.data):
                left.kill()


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    with stack() as up:
        up.start("--no-demo")
        yield up


def test_every_role_and_server_lives_under_its_name(up):
    pids = up.pids()

    assert set(pids) == {*SERVERS, *roles.NAMES}
    assert living(pids) == set(pids)
    assert answers(up.said()["url"])
    kept = (up.data / "up.log").read_text()
    assert "up | postgres runs as process" in kept
    assert "Applying" not in kept  # pages of it hid the address
    assert "web | " in kept


def test_the_address_and_a_link_to_sign_in_are_printed(up):
    url = up.said()["url"]

    assert f"Threadwork is running at {url}\n" in up.output()
    assert f"Sign in once with {url}/" in up.output()


def test_other_commands_find_it_by_its_folder(up):
    done = manage("showmigrations", "threads", THREADWORK_DATA=str(up.data))

    assert "[X] 0001_tables" in done.stdout


def test_a_second_up_on_the_folder_is_refused_naming_the_address(up):
    done = manage("up", "--data", str(up.data), "--port", "0")

    assert done.returncode == 1
    assert up.said()["url"] in done.stderr
    assert living(up.pids()) == set(up.pids())


def test_a_taken_port_is_refused_by_name(up, tmp_path):
    port = up.said()["url"].rpartition(":")[2]

    done = manage("up", "--data", str(tmp_path / "other"), "--port", port)

    assert done.returncode == 1
    assert f"Port {port}" in done.stderr
    assert not (tmp_path / "other" / "processes.json").exists()


def test_whatever_dies_is_started_again_and_said(up):
    before, url = up.pids(), up.said()["url"]
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)

    assert waiting.until(lambda: up.restarted(before), seconds=60)
    assert waiting.until(lambda: answers(url), seconds=60)
    assert "conductor ended by signal 9; it starts again now.\n" in up.output()
    assert up.said()["url"] == url


def test_after_sigkill_of_up_servers_are_adopted_and_roles_ended(up):
    assert up.process
    first = up.pids()
    up.process.kill()
    up.process.wait()
    assert living(first) == set(first)

    up.start("--no-demo", "--quiet")

    second = up.pids()
    assert {name for name in first if first[name] == second[name]} == set(SERVERS)
    assert living(first) == set(SERVERS)
    assert "web          |" not in up.output()


def test_servers_the_environment_names_are_used_and_not_started(up):
    said = up.said()
    named = {"DATABASE_URL": said["database_url"], "BROKER_URL": said["broker_url"]}
    with bases.base(below="other") as folder:
        done = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--data", str(folder), "--port", "0"],
            cwd=local.BASE_DIR,
            env=environment(**named),
            stdout=subprocess.DEVNULL,
        )
        other = Up(folder)
        other.process = done

        found = waiting.until((folder / "processes.json").exists, seconds=60)
        pids = other.pids()
        code = other.end()

        assert found
        assert [pids[name] for name in SERVERS] == [None, None]
        assert code == 0
        assert not (folder / "postgres").exists()
    assert living({name: up.pids()[name] for name in SERVERS}) == set(SERVERS)


def test_below_a_closed_folder_it_says_where_files_lie_and_ctrl_c_leaves_nothing():
    with stack() as up:
        up.data.parent.chmod(0o700)
        up.start("--no-demo", "--quiet")
        pids = up.pids()

        # An ordinary user's servers are its own, so nothing is out of their reach.
        told = f"The files of postgres lie in {places.SHELTER}/" in up.output()
        assert told == (os.geteuid() == 0)
        assert up.end() == 0
        assert living(pids) == set()
        assert list(leftovers.marked(up.data)) == []
        assert not (up.data / "processes.json").exists()
