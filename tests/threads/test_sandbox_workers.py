from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.threads.sandboxes import (
    Worker,
    alive,
    command,
    each,
    nap,
    run,
    sandbox,
    until,
)
from threads.runtime.sandbox import forks
from threads.runtime.sandbox.protocol import Result


def record(folder: Path) -> Path:
    return folder / "record" / "record.json"


def witness(folder: Path) -> list[str]:
    return (folder / "work" / "witness").read_text().splitlines()


@each
def test_a_killed_workers_command_is_gone_and_left_no_record(box, tmp_path):
    mark = nap()
    script = f"trap '' TERM; echo 1 >> witness; setsid {mark} & nohup {mark} & {mark}"
    with Worker(box, command(tmp_path, script)) as worker:
        until(lambda: len(alive(mark)) == 3)

        worker.signal(signal.SIGKILL)

        until(lambda: not alive(mark), seconds=2)
    assert not record(tmp_path).exists()


@each
def test_what_ended_before_the_worker_heard_of_it_is_adopted(box, tmp_path):
    wanted = command(tmp_path, "echo 1 >> witness; sleep 1; echo over; exit 7")
    with Worker(box, wanted) as worker:
        until((tmp_path / "work" / "witness").exists)
        worker.signal(signal.SIGSTOP)
        until(record(tmp_path).exists)

        worker.signal(signal.SIGKILL)
        with Worker(box, wanted) as next_one:
            result = next_one.result()

    assert result["adopted"]
    assert (result["exit_code"], result["output"]) == (7, "over\n")
    assert witness(tmp_path) == ["1"]


@each
def test_what_ended_while_its_worker_stood_still_is_adopted(box, tmp_path):
    flood = "head -c 3000000 /dev/zero | tr '\\0' A"
    wanted = command(tmp_path, f"echo 1 >> witness; sleep 1; {flood}")
    with Worker(box, wanted) as worker:
        until((tmp_path / "work" / "witness").exists)
        worker.signal(signal.SIGSTOP)
        until(record(tmp_path).exists)

        result = run(box, tmp_path, wanted.script, key=wanted.key)

        worker.signal(signal.SIGCONT)
        first = worker.result()
    assert result.adopted
    assert first["output"] == result.output
    assert witness(tmp_path) == ["1"]


@each
def test_another_worker_takes_over_from_one_that_stands_still(box, tmp_path):
    mark = nap()
    wanted = command(tmp_path, f"trap '' TERM; echo $$ >> witness; {mark} & wait")
    with Worker(box, wanted) as worker:
        until(lambda: len(alive(mark)) == 1)
        (old,) = alive(mark)
        worker.signal(signal.SIGSTOP)

        with Worker(box, wanted) as next_one:
            until(lambda: alive(mark) not in ([], [old]))
            assert old not in alive(mark)
            assert len(alive(mark)) == 1
            worker.signal(signal.SIGCONT)
            assert worker.result()["interrupted"]
            assert len(alive(mark)) == 1
            next_one.signal(signal.SIGKILL)
            until(lambda: not alive(mark), seconds=2)
    assert not record(tmp_path).exists()


@each
def test_a_supervisor_that_stands_still_is_taken_over_too(box, tmp_path):
    mark = nap()
    wanted = command(tmp_path, f"echo $$ >> witness; {mark} & wait")
    with Worker(box, wanted) as worker:
        until(lambda: len(alive(mark)) == 1)
        (old,) = alive(mark)
        os.kill(holder(tmp_path), signal.SIGSTOP)
        worker.signal(signal.SIGSTOP)

        with Worker(box, wanted):
            until(lambda: alive(mark) not in ([], [old]))
            assert old not in alive(mark)


@each
def test_a_killed_supervisor_takes_its_command_along(box, tmp_path):
    mark = nap()
    with Worker(box, command(tmp_path, f"setsid {mark} & {mark}")) as worker:
        until(lambda: len(alive(mark)) == 2)

        os.kill(holder(tmp_path), signal.SIGKILL)

        assert worker.result()["interrupted"]
        until(lambda: not alive(mark), seconds=2)


@each
def test_the_fork_server_may_die_in_mid_command(box, tmp_path):
    results: list[Result] = []
    thread = threading.Thread(
        target=lambda: results.append(
            run(box, tmp_path, "echo 1 >> witness; sleep 1; echo over")
        )
    )
    thread.start()
    until((tmp_path / "work" / "witness").exists)

    server = forks.server.pid()
    assert server
    os.kill(server, signal.SIGKILL)
    (tmp_path / "other").mkdir()
    other = run(box, tmp_path / "other", "echo next")
    thread.join()

    assert other.output == "next\n"
    # One that waits already may serve once more before the loss is seen.
    until(
        lambda: (
            (run(box, tmp_path, "true").exit_code, forks.server.pid())
            not in [(0, server)]
        )
    )
    assert results[0].output == "over\n"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@each
def test_commands_of_a_forked_worker_have_a_server_of_their_own(box, tmp_path):
    run(box, tmp_path, "true")
    (tmp_path / "child").mkdir()

    pid = os.fork()
    if pid == 0:
        try:
            result = run(box, tmp_path / "child", "echo child")
            os._exit(0 if result.output == "child\n" else 3)
        finally:
            os._exit(4)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert run(box, tmp_path, "echo parent").output == "parent\n"


@each
def test_a_worker_that_ends_leaves_no_server(box, tmp_path):
    with Worker(box, command(tmp_path, "echo over")) as worker:
        pid = worker.process.pid
        assert worker.result()["output"] == "over\n"

    until(lambda: not servers(pid), seconds=5)


def test_a_socket_copied_into_a_forked_child_does_not_hide_the_workers_end(tmp_path):
    mark = nap()
    code = (
        "import os, sys, threading, time\n"
        "from tests.threads import sandboxes as s\n"
        "t = threading.Thread(target=s.main, args=('process', sys.argv[1]))\n"
        "t.start()\n"
        f"s.until(lambda: s.alive({mark!r}))\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os.setsid(); time.sleep(20); os._exit(0)\n"
        "print(pid, flush=True)\n"
        "t.join()\n"
    )
    with Worker("process", command(tmp_path, mark)) as shape:
        raw: Any = shape.process.args
    worker = subprocess.Popen(
        [*raw[:1], "-W", "ignore", "-c", code, raw[-1]],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
    )
    assert worker.stdout
    child = int(worker.stdout.readline())

    worker.kill()

    try:
        until(lambda: not alive(mark), seconds=3)
    finally:
        os.kill(child, signal.SIGKILL)
        worker.communicate()


def holder(folder: Path) -> int:
    found = json.loads((folder / "record" / "lock").read_text())
    return int(found["pid"])


def servers(worker: int) -> list[Path]:
    ends = f"supervisor.py\0{worker}\0".encode()
    return [
        path
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if said(path).endswith(ends)
    ]


def said(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("name", ["process"])
def test_the_box_says_its_name(name):
    assert sandbox(name).name == name
