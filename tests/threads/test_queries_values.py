"""What each kind of value becomes, and what is kept of many and large ones."""

from __future__ import annotations

import csv
import io
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threads import text
from threads.runtime.queries.order import Caps
from threads.runtime.queries.sheet import Sheet, headings
from threads.runtime.queries.values import plain, read_json

CAPS = Caps(rows=100, cell=50, size=10_000, file=10_000)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (None, None),
        (True, True),
        (2**70, 2**70),
        (10**400, str(10**400)),
        (1.5, 1.5),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (Decimal("12.50"), "12.50"),
        (Decimal("0.0000001"), "0.0000001"),
        (Decimal("NaN"), "NaN"),
        (Decimal("-Infinity"), "-Infinity"),
        (Decimal("1E+9999"), "1E+9999"),
        (b"\x00\xff", "AP8="),
        (memoryview(b"\x00"), "AA=="),
        (date(2026, 12, 1), "2026-12-01"),
        (time(6, 30), "06:30:00"),
        (datetime(2026, 12, 1, 6), "2026-12-01T06:00:00"),  # noqa: DTZ001
        (datetime(2026, 12, 1, 6, tzinfo=UTC), "2026-12-01T06:00:00Z"),
        (
            datetime(2026, 12, 1, 6, tzinfo=timezone(timedelta(hours=2))),
            "2026-12-01T04:00:00Z",
        ),
        (timedelta(days=1, hours=2, microseconds=5), "P1DT2H0M0.000005S"),
        (timedelta(seconds=-90), "-PT0H1M30S"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ("a\x00b\ud800", "a\ufffdb\ufffd"),
        ((1, (b"\x00", None)), [1, ["AA==", None]]),
        ({"a\x00": Decimal(1)}, {"a\ufffd": "1"}),
    ],
)
def test_a_value_becomes(value, kept):
    found = plain(value)

    assert found == kept
    assert type(found) is type(kept)
    text.refuse(found, where="")


def test_a_number_in_json_that_a_float_would_change_stays_as_written():
    read = read_json('{"a": 0.1, "b": 0.12345678901234567890, "c": 1e400, "d": 1}')

    assert read == {"a": 0.1, "b": "0.12345678901234567890", "c": "1e400", "d": 1}


def test_every_column_has_a_name_of_its_own():
    names = ["a", "a", "", None, "a_2", "b\x00"]

    assert headings(names) == ("a", "a_2", "column_3", "column_4", "a_2_2", "b\ufffd")


def sheet(rows, caps=CAPS, names=("a",)):
    file = io.BytesIO()
    found = Sheet(names, caps, file)
    for row in rows:
        found.add(row)
    return found, file.getvalue().decode()


def test_rows_beyond_the_cap_are_counted_and_go_to_the_file():
    found, file = sheet([[n] for n in range(5)], Caps(2, 50, 10_000, 10_000))

    assert found.rows == [{"a": 0}, {"a": 1}]
    assert (found.left_out, found.file_rows) == (3, 5)
    assert file == "a\r\n0\r\n1\r\n2\r\n3\r\n4\r\n"


def test_a_long_value_is_cut_with_a_mark_and_whole_in_the_file():
    found, file = sheet([["x" * 60], [["y" * 60]]])

    assert found.rows[0]["a"] == "x" * 50 + "… (10 characters more)"
    assert found.rows[1]["a"].startswith('["yyy')
    assert found.cut == 2
    assert "x" * 60 in file


def test_no_later_row_is_kept_where_an_earlier_one_was_too_large():
    found, _ = sheet([["x"], ["y" * 40], ["z"]], Caps(10, 50, 30, 10_000))

    assert [row["a"] for row in found.rows] == ["x"]
    assert found.left_out == 2


def test_the_file_ends_with_a_whole_line_and_nothing_more_is_wanted():
    found, file = sheet([["x" * 9]] * 5, Caps(1, 50, 10_000, 30))

    assert file == "a\r\n" + ("x" * 9 + "\r\n") * 2
    assert found.file_rows == 2
    assert not found.wants_more()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+45 1234", "'+45 1234"),
        ("-x", "'-x"),
        ("@a", "'@a"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        (-1.5, "-1.5"),
        (Decimal("-2.50"), "-2.50"),
        (-3, "-3"),
        (None, ""),
        (True, "true"),
        ("a=b", "a=b"),
        (["=1"], '["=1"]'),
    ],
)
def test_no_text_of_the_file_passes_for_a_formula(value, written):
    _, file = sheet([[value]])

    assert list(csv.reader(io.StringIO(file, newline="")))[1:] == [[written]] or (
        written == "" and file == 'a\r\n""\r\n'
    )


def test_a_column_cannot_pass_for_a_formula_either():
    _, file = sheet([], names=("=cmd", "-1"))

    assert file == "'=cmd,'-1\r\n"


@given(st.lists(st.text(max_size=9), min_size=1, max_size=9))
def test_the_file_reads_back(words):
    _, file = sheet([[f"x{word}"] for word in words])

    read = list(csv.reader(io.StringIO(file, newline="")))
    assert [row[0] for row in read[1:]] == [plain(f"x{word}") for word in words]
