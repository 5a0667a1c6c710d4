from __future__ import annotations

import io
from pathlib import Path

from project.embedded import log
from project.embedded.log import Log


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_each_line_names_its_role(tmp_path):
    out = io.StringIO()
    book = Log(out, tmp_path / "up.log", quiet=False)

    book.lines("web", ["a", "b"])
    book.lines("worker-steps", ["c"])

    said = "web          | a\nweb          | b\nworker-steps | c\n"
    assert out.getvalue() == said


def test_a_terminal_sees_a_colour_for_each_role(tmp_path):
    out = Terminal()
    book = Log(out, tmp_path / "up.log", quiet=False)

    book.lines("web", ["a"])
    book.lines("beat", ["b"])

    first, second = out.getvalue().splitlines()
    assert first.startswith("\x1b[36m")
    assert second.startswith("\x1b[33m")


def test_a_role_cannot_drive_the_terminal(tmp_path):
    out = Terminal()
    book = Log(out, tmp_path / "up.log", quiet=False)

    book.lines("web", ["\x1b[2J\x1b]0;title\x07done\r"])

    assert out.getvalue().endswith("]0;titledone\n")
    assert "\x1b[2J" not in out.getvalue()


def test_quiet_keeps_lines_in_the_file_and_says_trouble(tmp_path):
    out = io.StringIO()
    book = Log(out, tmp_path / "up.log", quiet=True)

    book.lines("web", ["a"])
    book.say("web ended")

    assert out.getvalue() == "web ended\n"
    assert (tmp_path / "up.log").read_text() == "web | a\nup | web ended\n"


def test_a_link_that_signs_in_is_not_kept_in_the_file(tmp_path):
    out = io.StringIO()
    book = Log(out, tmp_path / "up.log", quiet=True)

    book.print("http://127.0.0.1:8000/sign-in/abc")

    assert "sign-in" in out.getvalue()
    assert not (tmp_path / "up.log").exists()


def test_the_work_goes_on_when_the_reader_has_gone(tmp_path):
    out = io.StringIO()
    book = Log(out, tmp_path / "up.log", quiet=False)
    out.close()

    book.say("still here")

    assert (tmp_path / "up.log").read_text() == "up | still here\n"


def test_the_file_is_put_aside_before_it_grows_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "LIMIT", 20)
    path: Path = tmp_path / "up.log"
    book = Log(io.StringIO(), path, quiet=True)

    book.lines("web", ["first line", "second line"])

    assert (path.read_text(), path.with_name("up.log.1").read_text()) == (
        "web | second line\n",
        "web | first line\n",
    )
    assert path.stat().st_mode & 0o077 == 0
