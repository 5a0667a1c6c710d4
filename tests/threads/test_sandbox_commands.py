from __future__ import annotations

import re
import socket
import sys
import time

import pytest

from tests.threads.sandboxes import command, each, run, sandbox, until
from threads.runtime.sandbox.protocol import SandboxBroken


@each
@pytest.mark.parametrize(
    ("script", "code", "output"),
    [
        ("yes | head -c 70000 | wc -c", 0, r"70000\n"),
        ("cat /bin/ls", 0, r"(?s).*�.*bytes left out.*"),
        (r"printf '\303'; sleep 0.3; printf '\251\n'", 0, "é\n"),
        (r"printf 'a\r\nb\r\n'", 0, "a\nb\n"),
        (r"printf '10%%\r50%%\r100%%\n'", 0, "100%\n"),
        ("touch a; mkdir b; ls --color=always", 0, "a\nb\n"),
        ("git rebase -i HEAD~2", 128, r"(?s)fatal: .*"),
        ("nosuchcommand", 127, r"(?s).*nosuchcommand: not found\n"),
        ("pytest -q --version", 0, r"pytest \d.*\n"),
        (
            "python3 -c 'print(\"x\"*3_000_000)' | tail -c 5",
            0,
            "xxxx\n",
        ),
    ],
)
def test_a_line_from_a_suite_ends_as_in_a_shell(box, tmp_path, script, code, output):
    result = run(box, tmp_path, script)

    assert result.exit_code == code
    assert re.fullmatch(output, result.output), result.output
    assert (result.signal, result.timed_out, result.cancelled) == (None, False, False)


@each
def test_a_download_that_gets_nowhere_ends_at_the_limit(box, tmp_path):
    result = run(box, tmp_path, "npx playwright install --with-deps", timeout=3.0)

    assert result.exit_code or result.timed_out


@each
@pytest.mark.parametrize("code", [0, 1, 3, 126, 255])
def test_the_exit_code_is_the_scripts(box, tmp_path, code):
    assert run(box, tmp_path, f"exit {code}").exit_code == code


@each
def test_a_script_ended_by_a_signal_says_so_as_a_shell_does(box, tmp_path):
    assert run(box, tmp_path, "kill -KILL $$").exit_code == 137


@each
def test_errors_and_output_come_in_one_stream_as_they_come(box, tmp_path):
    pieces = []

    result = run(
        box,
        tmp_path,
        "echo one; sleep 0.3; echo two >&2; sleep 0.3; echo three",
        emit=lambda piece: pieces.append((piece, time.monotonic())),
    )

    assert [piece for piece, _ in pieces] == ["one\n", "two\n", "three\n"]
    assert pieces[2][1] - pieces[0][1] > 0.4
    assert result.output == "one\ntwo\nthree\n"


@each
def test_the_environment_is_what_the_command_says_and_no_more(
    box, tmp_path, monkeypatch
):
    monkeypatch.setenv("DATABASE_URL", "postgresql://secret")

    result = run(box, tmp_path, "env", env={"THREADWORK_KEY": "k 1\nx"})

    names = set(re.findall(r"^([A-Z_]+)=", result.output, re.M))
    shells_own = {"PWD", "SHLVL", "_", "OLDPWD"}
    assert names - shells_own == {"PATH", "HOME", "LANG", "TMPDIR", "THREADWORK_KEY"}
    assert "THREADWORK_KEY=k 1\nx\n" in result.output
    assert "secret" not in result.output


@each
def test_home_is_the_workspace_and_temporary_files_do_not_stay(box, tmp_path):
    result = run(
        box,
        tmp_path,
        'cd; echo kept > kept; echo gone > "$TMPDIR/gone"; cat "$TMPDIR/gone"',
    )

    assert result.output == "gone\n"
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["kept"]
    assert not list(tmp_path.rglob("gone"))


@each
def test_the_projects_python_runs(box, tmp_path):
    result = run(box, tmp_path, "python -c 'import django, sys; print(sys.prefix)'")

    assert result.output == f"{sys.prefix}\n"


@each
@pytest.mark.parametrize(
    ("script", "output"),
    [
        ("cat", ""),
        ('read x || echo "no:$x"', "no:\n"),
        ("python3", ""),
        ("test -t 0 || echo none", "none\n"),
        ("(exec 3</dev/tty) 2>/dev/null || echo none", "none\n"),
    ],
)
def test_nobody_is_there_to_answer(box, tmp_path, script, output):
    began = time.monotonic()

    result = run(box, tmp_path, script)

    assert (result.exit_code, result.output) == (0, output)
    assert time.monotonic() - began < 5


@each
def test_git_does_not_wait_for_a_password(box, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        server.settimeout(0.0)
        result = run(
            box,
            tmp_path,
            f"git clone http://127.0.0.1:{port}/x.git & "
            "sleep 0.5; kill $! 2>/dev/null; ssh -p 1 localhost; echo over",
            timeout=20.0,
        )

    assert result.output.endswith("over\n")
    assert not result.timed_out


@each
def test_signals_are_the_shells_again(box, tmp_path):
    result = run(box, tmp_path, "grep -E 'Sig(Ign|Blk)' /proc/self/status")

    masks = [int(line.split()[1], 16) for line in result.output.splitlines()]
    threading = 0b11 << 31  # 32 and 33 are the C library's own and cannot be reset
    assert [mask & ~threading for mask in masks] == [0, 0]


@each
def test_a_pipe_closed_early_ends_its_writer_in_silence(box, tmp_path):
    assert run(box, tmp_path, "yes | head -1").output == "y\n"


@each
def test_nothing_of_the_worker_is_open_in_a_command(box, tmp_path):
    result = run(box, tmp_path, "ls /proc/self/fd | sort -n | tr '\\n' ' '")

    assert result.output in {"0 1 2 3 ", "0 1 2 3 4 "}
    assert run(box, tmp_path, "readlink /proc/$$/fd/3; true").output == ""


@each
def test_memory_is_limited(box, tmp_path):
    result = run(
        box,
        tmp_path,
        "python3 -c 'bytearray(400_000_000)'",
        memory=256 * 1024**2,
    )

    assert result.exit_code == 1
    assert "MemoryError" in result.output


@each
def test_the_size_of_a_file_is_limited(box, tmp_path):
    result = run(box, tmp_path, "head -c 40000000 /dev/zero > big", fsize=20_000_000)

    assert result.exit_code != 0
    assert (tmp_path / "work" / "big").stat().st_size == 20_000_000


@each
def test_no_program_gains_rights(box, tmp_path):
    result = run(box, tmp_path, "grep NoNewPrivs /proc/self/status; umask")

    assert result.output.split() == ["NoNewPrivs:", "1", "0022"]


@each
def test_a_script_no_system_takes_fails_in_words(box, tmp_path):
    result = run(box, tmp_path, "true " + "x" * 200_000)

    assert result.exit_code == 127
    assert "could not be started" in result.output
    assert not result.interrupted


@each
def test_a_nul_in_the_environment_begins_no_option_of_the_sandbox(box, tmp_path):
    result = run(box, tmp_path, "ls /host", env={"A": "x\0--bind\0/\0/host"})

    assert result.exit_code == 127
    assert "null byte" in result.output


@each
def test_fifty_at_once_are_fifty_results(box, tmp_path):
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    def one(number: int) -> str:
        folder = tmp_path / str(number)
        folder.mkdir()
        return run(box, folder, f"sleep 0.2; echo {number}").output

    with ThreadPoolExecutor(50) as pool:
        results = list(pool.map(one, range(50)))

    assert results == [f"{number}\n" for number in range(50)]


@each
def test_an_error_of_the_listener_ends_the_command(box, tmp_path):
    def refuse(_: str) -> None:
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        run(box, tmp_path, "echo begun; sleep 1; touch after; sleep 300", emit=refuse)

    # The hold is free once the tree is gone, so another may follow at once.
    assert run(box, tmp_path, "echo next").output == "next\n"
    assert not (tmp_path / "work" / "after").exists()


@each
def test_a_record_that_cannot_be_kept_is_a_reason_in_words(box, tmp_path):
    wanted = command(tmp_path, "true", record_dir=tmp_path / "record")
    (tmp_path / "record").mkdir()
    (tmp_path / "record" / "lock").mkdir()

    with pytest.raises(SandboxBroken, match="lock"):
        sandbox(box).run(wanted, emit=lambda _: None, stop=lambda: None)


@each
def test_a_finished_command_is_adopted_by_its_key_and_no_other(box, tmp_path):
    script = "echo line >> witness; cat witness; exit 4"

    first = run(box, tmp_path, script, key="one")
    again = run(box, tmp_path, script, key="one")
    other = run(box, tmp_path, script, key="two")

    assert (first.adopted, again.adopted, other.adopted) == (False, True, False)
    assert (again.output, again.exit_code) == (first.output, 4)
    assert other.output == "line\nline\n"
    found = sandbox(box).adopt(tmp_path / "record", "two")
    assert found is not None
    assert found.adopted
    assert sandbox(box).adopt(tmp_path / "record", "one") is None
    sandbox(box).discard(tmp_path / "record")
    assert not (tmp_path / "record").exists()


@each
def test_an_attempt_that_comes_late_does_not_begin(box, tmp_path):
    run(box, tmp_path, "true", attempt=2)

    late = run(box, tmp_path, "touch late", attempt=1)

    assert late.interrupted
    assert not (tmp_path / "work" / "late").exists()


def test_until_gives_up():
    with pytest.raises(AssertionError):
        until(lambda: False, seconds=0.05)
