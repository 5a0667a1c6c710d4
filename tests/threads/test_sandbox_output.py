from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.threads.sandboxes import each, run, until
from threads.runtime.sandbox import forks, output
from threads.runtime.sandbox.supervision.buffer import Allowance, Ends


def kept(data: bytes, limit: int, piece: int = 7) -> Ends:
    ends = Ends(limit)
    for start in range(0, len(data), piece):
        ends.add(data[start : start + piece])
    return ends


@given(st.binary(max_size=300), st.integers(0, 200), st.integers(1, 50))
def test_both_ends_stay_and_the_rest_is_counted(data, limit, piece):
    ends = kept(data, limit, piece)

    whole = bytes(ends.head) + ends.tail
    assert len(whole) == min(limit, len(data))
    assert data.startswith(bytes(ends.head))
    assert data.endswith(ends.tail)
    assert ends.dropped == len(data) - len(whole)


@given(st.text(max_size=200), st.integers(0, 120))
def test_what_is_cut_never_tears_a_character(words, limit):
    data = words.encode("utf-8", "ignore")
    ends = kept(data, limit)

    text = output.render(bytes(ends.head), ends.tail, ends.dropped)

    assert ("�" in text) <= ("�" in output.readable(words))


def test_the_mark_says_how_much_is_left_out():
    ends = kept(b"a" * 50 + b"b" * 900 + b"c" * 50, 100)

    text = output.render(bytes(ends.head), ends.tail, ends.dropped)

    assert text == "a" * 50 + "\n… 900 bytes left out …\n" + "c" * 50
    assert output.left(bytes(ends.head), ends.tail, ends.dropped) == 900


def test_memory_of_the_ends_stays_flat():
    ends = Ends(20_000)
    for _ in range(500):
        ends.add(b"x" * 65536)

    assert len(ends.rest) < 200_000


def test_a_flood_passes_as_a_burst_and_then_a_trickle():
    allowance = Allowance(0.0)

    passed = sum(allowance.take(65536, number / 100) for number in range(100))

    assert passed in {4, 5}
    assert allowance.skipped == (100 - passed) * 65536
    assert allowance.take(65536, 10.0)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("a\r\nb\r\n", "a\nb\n"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("10%\r50%\r", "50%"),
        ("\x1b[01;34mdir\x1b[0m\n", "dir\n"),
        ("\x1b]0;title\x07after\n", "after\n"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "link\n"),
        ("\x1b]0;" + "endless " * 3, "]0;" + "endless " * 3),
        ("\x1b[2J\x1b[Htop", "top"),
        ("bell\x07 nul\x00", "bell nul�"),
        ("tab\tkept", "tab\tkept"),
        ("cut\x1b[3", "cut"),
    ],
)
def test_escapes_are_gone_and_a_bar_shows_its_last_state(raw, text):
    assert output.readable(raw) == text


@given(
    st.lists(
        st.sampled_from(
            ["é", "👍", "x", "\n", "\r\n", "\x1b[31m", "\x1b[0m", "\x1b]0;t\x07", "\t"]
        ),
        max_size=30,
    ),
    st.integers(1, 5),
)
def test_live_pieces_are_what_the_whole_is(parts, piece):
    data = "".join(parts).encode()
    live = output.Live()

    pieces = [
        live.feed(data[start : start + piece]) for start in range(0, len(data), piece)
    ]
    pieces.append(live.feed(b"", final=True))

    whole = "".join(part for part in parts if not part.startswith("\x1b"))
    assert "".join(pieces).split() == whole.split()
    assert "\x1b" not in "".join(pieces)
    assert "�" not in "".join(pieces)


def test_every_state_of_a_bar_comes_live_and_no_empty_line():
    live = output.Live()

    pieces = [live.feed(part) for part in (b"1%", b"\r2%\r", b"3%\r\n", b"end")]

    assert "".join(pieces) == "1%\n2%\n3%\nend"


@each
def test_one_byte_more_than_a_pipe_holds_comes_through(box, tmp_path):
    result = run(
        box, tmp_path, "head -c 65537 /dev/zero | tr '\\0' A", max_output=100_000
    )

    assert result.output == "A" * 65537
    assert result.truncated == 0


@each
def test_ten_megabytes_on_either_stream_do_not_block(box, tmp_path):
    script = (
        "echo first; for i in 1 2 3 4 5; do "
        "head -c 2000000 /dev/zero | tr '\\0' o; "
        "head -c 2000000 /dev/zero | tr '\\0' e >&2; done; echo; echo last"
    )

    result = run(box, tmp_path, script)

    assert result.output.startswith("first\nooo")
    assert result.output.endswith("eee\nlast\n")
    assert result.truncated == 20_000_012 - 20_000
    assert f"… {result.truncated} bytes left out …" in result.output


@each
def test_a_line_of_three_megabytes_keeps_its_ends(box, tmp_path):
    result = run(box, tmp_path, "python3 -c 'print(\"x\"*3_000_000)'")

    assert result.truncated == 3_000_001 - 20_000
    assert len(result.output) < 20_100


@each
def test_a_gigabyte_costs_no_memory(box, tmp_path):
    seen: list[int] = []
    largest = 0
    thread = threading.Thread(
        target=lambda: seen.append(
            run(
                box,
                tmp_path,
                "touch begun; head -c 1000000000 /dev/zero; sleep 1",
                timeout=120.0,
                emit=lambda piece: pieces.append(len(piece)),
            ).truncated
        )
    )
    pieces: list[int] = []
    own = resident(os.getpid())
    thread.start()
    until((tmp_path / "work" / "begun").exists)
    server = forks.server.pid()
    assert server
    while thread.is_alive():
        thread.join(0.1)
        largest = max([largest, *map(resident, children(server))])

    assert seen == [1_000_000_000 - 20_000]
    assert 0 < largest < 40_000_000
    assert resident(os.getpid()) - own < 30_000_000
    assert sum(pieces) < 20_000_000


@each
@pytest.mark.parametrize("pad", [4095, 8191, 65535, 49_999])
def test_an_emoji_astride_an_edge_stays_whole(box, tmp_path, pad):
    script = (
        f"head -c {pad} /dev/zero | tr '\\0' a; printf '\\360\\237\\221\\215'; echo"
    )
    live: list[str] = []

    result = run(box, tmp_path, script, max_output=100_000, emit=live.append)

    assert result.output == "a" * pad + "👍\n"
    assert "".join(live) == result.output


@each
def test_bytes_that_are_not_text_are_shown_and_fail_nothing(box, tmp_path):
    script = (
        r"printf '\351t\351\n'; printf '\033]0;never closed'; echo; "
        r"printf '\342\200\256rtl\n'; printf 'a\000b\n'"
    )

    result = run(box, tmp_path, script)

    assert result.exit_code == 0
    assert result.output == "�t�\n]0;never closed\n\u202ertl\na�b\n"


def children(pid: int) -> list[int]:
    found = subprocess.run(
        ["ps", "--ppid", str(pid), "-o", "pid="], capture_output=True, check=False
    )
    return [int(word) for word in found.stdout.split()]


def resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    except OSError:
        return 0
