from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threads import text


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        ("", ""),
        ("plain\ttext\r\nand\n", "plain\ttext\r\nand\n"),
        ("a\x00b", "a�b"),
        ("a\ud800b\udfff", "a�b�"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        ("\x1b]0;a title\x07kept", "kept"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;never closed\nkept", "]0;never closed\nkept"),
        ("bell\x07 back\x08 feed\x0c", "bell back feed"),
        ("c1\x9b31m and \x85 next", "c131m and \x85 next"),
        ("café 🚀 \u202e", "café 🚀 \u202e"),
    ],
)
def test_output_is_cleaned_and_stays_readable(raw, kept):
    assert text.clean(raw) == kept


@given(st.text(st.characters(codec=None)))
def test_cleaned_text_can_be_kept_whatever_came(raw):
    kept = text.clean(raw)

    assert "\x00" not in kept
    assert kept.encode().decode() == kept
    assert text.clean(kept) == kept
    text.refuse(kept, where="output")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"t": "a\x00b"}, "payload.t: holds a NUL character"),
        ({"\x00k": 1}, "payload: a key holds a NUL character"),
        ({"t": "\ud800"}, "payload.t: holds half of a surrogate pair"),
        ({"a": [{"b": "\udfff"}]}, "payload.a[0].b: holds half of a surrogate pair"),
        ({"n": float("nan")}, "payload.n: holds a number that is not finite"),
        ({"n": float("-inf")}, "payload.n: holds a number that is not finite"),
        ({"n": 10**400}, "payload.n: holds a number that is too large"),
        ({1: "x"}, "payload: the key 1 is not text"),
        ({"s": {1, 2}}, "payload.s: holds a set, which is not JSON"),
        ({"b": b"x"}, "payload.b: holds a bytes, which is not JSON"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_place(value, message):
    with pytest.raises(text.Unclean) as refusal:
        text.refuse(value, where="payload")

    assert str(refusal.value) == message


def test_the_first_of_several_faults_is_the_one_named():
    with pytest.raises(text.Unclean) as refusal:
        text.refuse({"a": ["x", "\x00"], "b": "\x00"}, where="payload")

    assert refusal.value.where == "payload.a[1]"


def test_without_a_place_the_field_stands_alone():
    with pytest.raises(text.Unclean) as refusal:
        text.refuse({"steps": [{"name": "\x00"}]}, where="")

    assert refusal.value.where == "steps[0].name"
    assert refusal.value.reason == "holds a NUL character"


@pytest.mark.parametrize(
    "value",
    [
        {"id": 12345678901234567890, "n": 1.0, "f": False, "z": None, "o": {}, "l": []},
        {"title": "café 🚀 \u2028 fix"},
        "\x1b[31m\t\r\n",
        1e308,
        -(2**63),
    ],
)
def test_ordinary_values_pass(value):
    text.refuse(value, where="payload")

    assert text.loads(json.dumps(value), where="payload") == value


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("depth", [102, 2000, 200_000])
def test_deep_nesting_is_refused_and_never_a_crash(opening, closing, depth):
    with pytest.raises(text.Unclean, match="nested deeper than 100"):
        text.loads(opening * depth + "1" + closing * depth, where="payload")


def test_a_hundred_levels_pass():
    text.loads("[" * 100 + "]" * 100, where="payload")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (r'{"t":"a\u0000b"}', "holds a NUL character"),
        (r'{"t":"\ud800"}', "holds half of a surrogate pair"),
        ('{"n":NaN}', "holds NaN, which JSON does not have"),
        ('{"n":-Infinity}', "holds -Infinity, which JSON does not have"),
        ('{"n":1e999}', "holds a number that is not finite"),
        ('{"n":' + "9" * 5000 + "}", "a number is too large"),
        ('{"n":', "is not JSON: Expecting value at line 1, column 6"),
        ("", "is not JSON: Expecting value at line 1, column 1"),
        (b"\xff\xfe{}", "is not UTF-8 text"),
        ("{'a': 1}", "is not JSON"),
    ],
)
def test_json_that_is_not_strict_is_refused(raw, reason):
    with pytest.raises(text.Unclean) as refusal:
        text.loads(raw, where="payload")

    assert reason in refusal.value.reason
    assert refusal.value.where.startswith("payload")


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ('{"a":1,"a":2}', {"a": 2}),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (r'"\ud83d\ude80"', "🚀"),
        ("null", None),
        ('{"id":12345678901234567890}', {"id": 12345678901234567890}),
    ],
)
def test_json_keeps_what_it_says(raw, value):
    assert text.loads(raw, where="payload") == value


@given(st.one_of(st.text(), st.binary()))
def test_any_body_is_a_value_or_a_refusal(raw):
    try:
        text.loads(raw, where="payload")
    except text.Unclean:
        return


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_what_is_not_refused_is_strict_json(value):
    try:
        text.refuse(value, where="payload")
    except text.Unclean:
        return

    assert "\\u0000" not in json.dumps(value, allow_nan=False).replace("\\\\", "")


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        ("", ""),
        ("  two\n lines \r\n", "two lines"),
        ("\x1b[1;31merror\x1b[0m: no", "error: no"),
        ("\x1b]8;;http://a\x07link\x1b]8;;\x07", "link"),
        ("a\x00b", "a�b"),
        ("x" * 300, "x" * 199 + "…"),
    ],
)
def test_a_reason_is_one_line(raw, line):
    assert text.one_line(raw) == line


@given(st.text(st.characters(codec=None)), st.integers(1, 50))
def test_a_reason_is_never_longer_than_its_limit(raw, limit):
    line = text.one_line(raw, limit)

    assert len(line) <= limit
    assert "\n" not in line
