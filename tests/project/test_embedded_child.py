from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from project.embedded import leftovers, waiting
from project.embedded.child import Child


@pytest.fixture
def shell() -> Iterator[Child]:
    child = Child("role", ["/bin/sh", "-c", "true"], dict(os.environ))
    yield child
    child.end(signal.SIGKILL, group=True)
    waiting.until(lambda: child.process is None or child.died(), seconds=5)


def run(child: Child, script: str) -> None:
    child.argv = ["/bin/sh", "-c", script]
    child.start()


def output(child: Child) -> list[str]:
    """Return all that the child writes until its end."""
    lines: list[str] = []

    def ended() -> bool:
        lines.extend(child.lines())
        return child.died()

    assert waiting.until(ended, seconds=10)
    return lines + child.last_lines()


def test_lines_come_whole_and_the_last_one_without_its_end(shell):
    run(shell, "printf 'one\\ntw'; printf 'o\\nthree'")

    assert output(shell) == ["one", "two", "three"]


def test_a_line_without_an_end_is_cut_not_kept_for_ever(shell):
    run(shell, "head -c 300000 /dev/zero | tr '\\0' x; echo")

    lines = output(shell)

    assert len(lines) > 1
    assert "".join(lines) == "x" * 300_000


def test_what_a_dead_role_started_ends_with_it(shell):
    run(shell, "sleep 60 & echo $!; wait")
    with open(shell.output, closefd=False) as written:
        os.set_blocking(shell.output, True)
        grandchild = psutil.Process(int(written.readline()))
    os.set_blocking(shell.output, False)

    shell.end(signal.SIGKILL)

    assert waiting.until(shell.died, seconds=5)
    assert shell.how_it_ended() == "signal 9"
    shell.last_lines()
    assert waiting.until(lambda: gone(grandchild), seconds=5)


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_role_starts_again_at_once_and_later_when_it_keeps_dying_young(shell):
    shell.start()

    pauses = [shell.put_off() for _ in range(9)]

    assert pauses[:4] == [0.0, 0.5, 1.0, 2.0]
    assert max(pauses) == pauses[-1] == 5.0

    shell.born -= 60

    assert shell.put_off() == 0.0


def test_a_role_that_closes_its_output_goes_on_in_silence(shell):
    run(shell, "exec >&- 2>&-; sleep 60")

    assert waiting.until(lambda: not shell.lines() and shell.silent, seconds=5)
    assert not shell.died()
    os.close(shell.output)


def test_leftovers_of_this_folder_end_and_those_of_another_live(tmp_path):
    script = "import subprocess as s; s.run(['sleep', '60'], start_new_session=True)"
    ours, other = (
        subprocess.Popen(
            [sys.executable, "-c", script],
            env={**os.environ, leftovers.MARK: str(tmp_path / name)},
        )
        for name in ("ours", "other")
    )
    with ours, other:
        assert waiting.until(
            lambda: len(list(leftovers.marked(tmp_path / "ours"))) == 2, seconds=10
        )

        assert leftovers.end(tmp_path / "ours") == 1

        assert list(leftovers.marked(tmp_path / "ours")) == []
        assert other.poll() is None
        assert leftovers.end(tmp_path / "other") == 1


def test_a_leftover_that_will_not_listen_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "GRACE_SECONDS", 0.5)
    with subprocess.Popen(
        ["/bin/sh", "-c", "trap '' TERM; echo; while :; do sleep 1; done"],
        env={**os.environ, leftovers.MARK: str(tmp_path)},
        stdout=subprocess.PIPE,
    ) as deaf:
        assert deaf.stdout
        deaf.stdout.readline()

        assert leftovers.end(tmp_path) == 1

        assert not psutil.pid_exists(deaf.pid)
