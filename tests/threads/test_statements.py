"""SQL told apart: literals and comments from what binds and what ends a statement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threads import statements


def names(sql: str, family: str = "postgresql") -> list[str]:
    return statements.read(sql, family).names


@pytest.mark.parametrize(
    ("sql", "family", "bound"),
    [
        ("SELECT :a, :b_2", "sqlite", ["a", "b_2"]),
        ("SELECT :a::int, b::text", "postgresql", ["a"]),
        ("SELECT ':a', '12:30', 'it''s :b'", "postgresql", []),
        ('SELECT ":a" FROM t', "postgresql", []),
        (r"SELECT E'\' :a', '\', :b, '''", "postgresql", ["b"]),
        (r"SELECT 'it\'s :a', :b", "mysql", ["b"]),
        ("SELECT $$ :a $$, $x$ :b $$ $x$, :c", "postgresql", ["c"]),
        ("SELECT a$1, :b", "postgresql", ["b"]),
        ("SELECT 1 -- :a\n, :b", "postgresql", ["b"]),
        ("SELECT 1--1, :a", "mysql", ["a"]),
        ("SELECT 1 # :a\n, :b", "mysql", ["b"]),
        ("SELECT a #> :b", "postgresql", ["b"]),
        ("SELECT /* :a /* :b */ :c */ :d", "postgresql", ["d"]),
        ("SELECT /* :a */ :b", "sqlite", ["b"]),
        ("SELECT [a:b], `c :d`, :e", "sqlite", ["e"]),
        ("SELECT a[1:2], b[:n]", "postgresql", ["n"]),
        ("SELECT @x := 1, :a", "mysql", ["a"]),
        ("SELECT :a :b", "oracle", ["a", "b"]),
        ("SELECT 'never ends :a", "postgresql", []),
    ],
)
def test_only_what_stands_outside_literals_and_comments_is_bound(sql, family, bound):
    assert names(sql, family) == bound


@pytest.mark.parametrize(
    ("sql", "family"),
    [
        ("SELECT 1;", "sqlite"),
        ("SELECT 1 ; -- the end\n", "sqlite"),
        ("SELECT ';'", "sqlite"),
        ("SELECT $$;$$", "postgresql"),
        ("SELECT 1 ;;", "postgresql"),
    ],
)
def test_a_semicolon_may_end_the_statement(sql, family):
    assert "".join(p.text for p in statements.read(sql, family).pieces).strip(" ;")


@pytest.mark.parametrize(
    ("sql", "family"),
    [
        ("SELECT 1; SELECT 2", "sqlite"),
        ("SELECT '\\'; DROP TABLE t --'", "postgresql"),
        ("SELECT 1;;DROP TABLE t", "mysql"),
        ("", "sqlite"),
        (" ; ", "sqlite"),
        ("-- nothing", "sqlite"),
        ("/* nothing */", "postgresql"),
    ],
)
def test_two_statements_or_none_are_refused(sql, family):
    with pytest.raises(statements.NotOne):
        statements.read(sql, family)


def test_a_name_is_bound_anyhow_where_every_family_binds_it():
    sql = "SELECT :a, $$ :b $$, 'it\\'s :c"

    assert statements.bound_anyhow(sql) == ["a"]


@given(
    st.text(alphabet="ab:;'\"$\\-/*#[]` \nE", max_size=40),
    st.sampled_from(statements.FAMILIES),
)
def test_the_pieces_are_the_text(sql, family):
    pieces = statements.split(sql, family)

    whole = "".join(f":{p.text}" if p.kind == "name" else p.text for p in pieces)
    assert whole == sql
