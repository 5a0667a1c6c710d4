from __future__ import annotations

import logging
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from tests.threads.sandboxes import MISSING, ROOT, command, needs_bubblewrap
from threads.runtime import sandbox
from threads.runtime.sandbox import identity
from threads.runtime.sandbox.bubblewrap import Bubblewrap
from threads.runtime.sandbox.process import Process
from threads.runtime.sandbox.protocol import Result, Sandbox, UnknownSandbox

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
boxes = pytest.mark.parametrize(
    "kind", [Process, pytest.param(Bubblewrap, marks=needs_bubblewrap)]
)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder other users may reach, as pytest's own may not be."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def do(box: Sandbox, folder: Path, script: str, **changes: object) -> Result:
    return box.run(
        command(folder, script, **changes), emit=lambda _: None, stop=lambda: None
    )


@as_root
@boxes
def test_as_root_a_command_is_a_user_of_its_own(kind, open_folder):
    (open_folder / "work").mkdir()
    (open_folder / "work" / "given").write_text("by the worker\n")

    result = do(
        kind(), open_folder, "echo more >> given; cat given; stat -c %u /proc/$$"
    )

    lines = result.output.splitlines()
    assert lines[:2] == ["by the worker", "more"]
    assert lines[2] != "0"
    owner = identity.own_uid(open_folder / "work")
    assert (open_folder / "work" / "given").stat().st_uid == owner
    assert stat.S_IMODE((open_folder / "work").stat().st_mode) == 0o700


@as_root
@boxes
def test_a_command_reads_neither_the_record_nor_another_workspace(kind, open_folder):
    other = open_folder / "other"
    other.mkdir(mode=0o755)
    do(kind(), other, "echo secret > theirs")

    script = (
        f"cat {other}/work/theirs; touch {open_folder}/record/record.json; "
        f"cat {open_folder}/record/lock; kill -9 {os.getpid()}; echo over"
    )
    result = do(kind(), open_folder, script)

    assert "secret" not in result.output
    assert "machine" not in result.output
    assert result.output.endswith("over\n")


@as_root
@boxes
def test_a_file_with_a_second_name_is_not_given_away(kind, open_folder):
    (open_folder / "worker").write_text("the worker's\n")
    (open_folder / "work").mkdir()
    (open_folder / "work" / "link").symlink_to(open_folder / "worker")
    os.link(open_folder / "worker", open_folder / "work" / "name")

    do(kind(), open_folder, "true")

    assert (open_folder / "worker").stat().st_uid == 0


@as_root
@boxes
def test_the_number_of_processes_is_limited(kind, open_folder):
    script = "for i in $(seq 100); do sleep 5 & done; echo all"

    result = do(kind(), open_folder, script, pids=30, timeout=20.0)

    assert "all" not in result.output
    assert "fork" in result.output


@as_root
@boxes
def test_a_fork_bomb_ends_at_the_limit_of_time(kind, open_folder):
    result = do(
        kind(), open_folder, "f() { f | f & }; f; sleep 60", pids=60, timeout=2.0
    )

    assert result.seconds < 10
    assert do(kind(), open_folder, "echo next").output == "next\n"


@as_root
def test_where_others_cannot_reach_it_stays_root_and_says_so(tmp_path, caplog):
    tmp_path.chmod(0o700)

    with caplog.at_level(logging.WARNING):
        result = do(Process(), tmp_path, "id -u")

    assert result.output == "0\n"
    assert "Commands run as root" in caplog.text


@as_root
@boxes
def test_a_workspace_given_away_can_be_taken_back(kind, open_folder):
    do(kind(), open_folder, "echo one > file")

    result = do(
        kind(own_uid=False), open_folder, "cat file; echo two >> file; cat file"
    )

    assert result.output == "one\none\ntwo\n"


@as_root
@boxes
def test_an_ordinary_user_runs_commands_too(kind, open_folder):
    shutil.copytree(
        ROOT / "threads",
        open_folder / "code" / "threads",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if not python or sys.version_info[:2] < (3, 11):
        pytest.skip("needs a Python every user can run")
    code = (
        "import sys, types, tempfile, os; from pathlib import Path\n"
        f"sys.path.insert(0, {str(open_folder / 'code')!r})\n"
        "conf = types.ModuleType('django.conf'); conf.settings = None\n"
        "sys.modules.update({'django': types.ModuleType('django'), 'django.conf': conf})\n"
        f"from threads.runtime.sandbox.{kind.name} import {kind.__name__} as Box\n"
        "from threads.runtime.sandbox.protocol import Command\n"
        "home = Path(tempfile.mkdtemp()); (home / 'work').mkdir()\n"
        "os.environ['HOME'] = str(home)\n"
        "box = Box(); assert box.check() == [], box.check()\n"
        "c = Command(script='id -u; (sleep 300 &); ls /root; echo over', key='k',\n"
        " workdir=home / 'work', record_dir=home / 'record', env={}, timeout=20,\n"
        " max_output=2000, network=False, memory=2**32, pids=200, fsize=2**30)\n"
        "print(box.run(c, emit=lambda _: None, stop=lambda: None).output)\n"
    )
    done = subprocess.run(
        [python, "-c", code],
        user=65534,
        group=65534,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.stdout.startswith("65534\n"), done.stderr
    assert done.stdout.endswith("over\n\n")


@needs_bubblewrap
def test_bubblewrap_shuts_a_command_in(tmp_path):
    (tmp_path / "outside").write_text("secret")
    script = (
        f"cat {tmp_path}/outside /etc/shadow /root/.bashrc; ls /home; "
        f"ls -d /proc/[0-9]* | wc -l; kill -0 {os.getpid()}; hostname; "
        "touch /usr/x /etc/x; echo $HOME $(pwd); grep CapEff /proc/self/status"
    )

    result = do(Bubblewrap(), tmp_path, script)

    assert "secret" not in result.output
    assert "root:" not in result.output
    assert result.output.count("No such file") == 4
    assert result.output.count("Read-only file system") == 2
    assert "/workspace /workspace\n" in result.output
    assert "CapEff:\t0000000000000000\n" in result.output


@needs_bubblewrap
def test_bubblewrap_has_a_network_only_when_asked(tmp_path):
    script = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"

    assert do(Bubblewrap(), tmp_path, script).output == "lo\n"
    asked = do(Bubblewrap(), tmp_path, script, network=True, key="asked").output
    assert sorted(asked.split()) == sorted(
        path.name for path in Path("/sys/class/net").iterdir()
    )


@needs_bubblewrap
def test_a_secret_is_in_nobodys_list_of_processes(tmp_path):
    box = Bubblewrap()

    result = do(
        box,
        tmp_path,
        "cat /proc/1/cmdline /proc/$$/cmdline | tr '\\0' ' '; echo; echo $TOKEN",
        env={"TOKEN": "hush-hush"},
    )

    assert result.output.count("hush-hush") == 1


@needs_bubblewrap
def test_bubblewrap_says_it_works_here():
    assert Bubblewrap().check() == []


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("bwrap: No permissions to create new namespace", "AppArmor"),
        ("bwrap: setting up uid map: Permission denied", "seccomp"),
        ("bwrap: Can't mount proc on /newroot/proc: EPERM", "systempaths"),
    ],
)
def test_a_bubblewrap_that_is_not_allowed_says_what_to_do(tmp_path, said, advice):
    fake = tmp_path / "bwrap"
    fake.write_text(f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')
    fake.chmod(0o755)

    (reason,) = Bubblewrap(binary=str(fake)).check()

    assert said in reason
    assert advice in reason


def test_a_missing_bubblewrap_says_what_to_install():
    assert "apt install bubblewrap" in Bubblewrap(binary="").check()[0]
    assert "apt install bubblewrap" in MISSING


@pytest.fixture
def set_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if not settings.configured:
        settings.configure(SANDBOX_READ_ONLY=())
    else:
        monkeypatch.setattr(settings, "SANDBOX_READ_ONLY", ())
    sandbox.best.cache_clear()
    sandbox.build.cache_clear()
    yield
    sandbox.best.cache_clear()
    sandbox.build.cache_clear()


def test_a_sandbox_is_chosen_by_name_or_path(set_up):
    assert sandbox.choose("process").name == "process"
    path = "threads.runtime.sandbox.bubblewrap.Bubblewrap"
    assert sandbox.choose(path).name == "bubblewrap"
    assert sandbox.get("process") is sandbox.get("process")


@pytest.mark.parametrize("name", ["nope", "no.such.Box", "threads.text.Nothing", ""])
def test_an_unknown_sandbox_is_refused_by_name(set_up, name):
    with pytest.raises(UnknownSandbox, match=f"“{name}”"):
        sandbox.choose(name)


def test_auto_without_bubblewrap_is_processes_and_announced(
    set_up, monkeypatch, caplog
):
    monkeypatch.setattr(Bubblewrap, "check", lambda _: ["It is not allowed here."])

    with caplog.at_level(logging.WARNING):
        box = sandbox.choose("auto")

    assert box.name == "process"
    assert "not shut in: It is not allowed here." in caplog.text
    assert sandbox.choose("auto") is box
