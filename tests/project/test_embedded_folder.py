from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from project import local
from project.embedded import folder

SAID = {
    "url": "http://127.0.0.1:8000",
    "database_url": "postgresql://postgres@/threadwork?host=%2Fd",
    "broker_url": "redis+socket:///d/valkey.sock",
    "processes": {"web": 1},
}


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch, tmp_path):
    for name in ("DATABASE_URL", "BROKER_URL", "PUBLIC_URL"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("THREADWORK_DATA", str(tmp_path))


def test_nothing_runs_on_a_folder_that_nobody_holds(tmp_path):
    assert folder.running(tmp_path) is None

    folder.write(tmp_path, SAID)

    assert folder.running(tmp_path) is None


def test_a_running_up_is_found_by_its_folder(tmp_path):
    with folder.held(tmp_path):
        folder.write(tmp_path, SAID)

        found = folder.running(tmp_path)

    assert found
    assert (found.url, found.processes) == (SAID["url"], {"web": 1})


def test_a_second_up_on_a_folder_is_refused_naming_the_address(tmp_path):
    with folder.held(tmp_path):
        folder.write(tmp_path, SAID)

        with (
            pytest.raises(folder.FolderBusy, match=r"at http://127\.0\.0\.1:8000"),
            folder.held(tmp_path),
        ):
            pass


def test_the_lock_of_a_killed_up_is_free(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from project.embedded import folder\n"
        "with folder.held(Path(sys.argv[1])): print(1, flush=True); time.sleep(60)"
    )
    argv = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(argv, cwd=local.BASE_DIR, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        holder.stdout.readline()
        with pytest.raises(folder.FolderBusy), folder.held(tmp_path):
            pass
        os.kill(holder.pid, signal.SIGKILL)

    with folder.held(tmp_path):
        pass


@pytest.mark.parametrize("content", ["", "{", "[]", '{"url": "x"}'])
def test_a_file_that_says_nothing_is_no_running_up(tmp_path, content):
    with folder.held(tmp_path):
        (tmp_path / folder.PROCESSES).write_text(content)

        assert folder.running(tmp_path) is None


def test_a_command_uses_the_running_up_and_variables_that_are_set_win(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("BROKER_URL", "redis://mine")
    with folder.held(tmp_path):
        folder.write(tmp_path, SAID)

        folder.adopt_environment(["manage.py", "wf", "list"])

    assert os.environ["DATABASE_URL"] == SAID["database_url"]
    assert os.environ["BROKER_URL"] == "redis://mine"


def test_a_command_without_servers_ends_naming_up():
    with pytest.raises(SystemExit, match=r"`manage\.py up`"):
        folder.adopt_environment(["manage.py", "wf", "list"])


@pytest.mark.parametrize(
    "words",
    [[], ["--version"], ["check"], ["wf", "--help"], ["makemigrations", "--check"]],
)
def test_a_command_that_needs_no_servers_runs_without(words):
    folder.adopt_environment(["manage.py", *words])

    assert not os.environ["DATABASE_URL"]


@pytest.mark.parametrize("words", [["--data", "/d/x"], ["--data=/d/x", "--port", "0"]])
def test_up_names_its_own_folder_before_settings_are_read(words):
    folder.adopt_environment(["manage.py", "up", *words])

    assert os.environ["THREADWORK_DATA"] == "/d/x"


def test_up_ignores_an_up_that_runs_already(tmp_path):
    with folder.held(tmp_path):
        folder.write(tmp_path, SAID)

        folder.adopt_environment(["manage.py", "up"])

    assert not os.environ["DATABASE_URL"]
