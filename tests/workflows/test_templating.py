from __future__ import annotations

from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.templating import (
    Malformed,
    Scope,
    StepResult,
    Unresolved,
    as_text,
    check,
    paths,
    render_text,
    render_value,
)

PAYLOAD = {
    "s": "",
    "n": 0,
    "f": False,
    "z": None,
    "l": [],
    "o": {},
    "d": {"a.b": 1},
    "arr": [{"x": 1}],
    "é": "ok",
    "sp ace": 2,
    "branch": "main",
    "float": 1.0,
    "big": 12345678901234567890,
    "text": "café 🚀",
    "true": True,
    "steps": "mine",
    "run": "too",
    "arr[0]": "a key",
}
STEPS = {
    "first": StepResult("completed", {"output": '{"key":"value"}', "exit_code": 0}),
    "red": StepResult("failed", {"output": "boom", "exit_code": 2}),
    "left-out": StepResult("skipped"),
    "lost": StepResult("failed"),
    "items": StepResult("completed", {"rows": [[1, "a"]], "keys": {"values": 3}}),
}
RUN = {"id": "r-1", "key": "", "started_at": "2027-01-01T09:00:00Z"}
SCOPE = Scope(payload=PAYLOAD, run=RUN, steps=STEPS)


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("", ""),
        ("plain", "plain"),
        ("{{payload.branch}}", "main"),
        ("{{branch}}", "main"),
        ("a{{payload.branch}}b{{branch}}c", "amainbmainc"),
        ("{{ payload.branch }}", "main"),
        ("{{\tpayload.branch\n}}", "main"),
        ("[{{payload.s}}]", "[]"),
        ("{{payload.n}}", "0"),
        ("{{payload.f}}", "false"),
        ("{{payload.true}}", "true"),
        ("{{payload.z}}", "null"),
        ("{{payload.l}}", "[]"),
        ("{{payload.o}}", "{}"),
        ("{{payload.float}}", "1.0"),
        ("{{payload.big}}", "12345678901234567890"),
        ("{{payload.text}}", "café 🚀"),
        ("{{payload.arr}}", '[{"x": 1}]'),
        ("{{payload.arr.0}}", '{"x": 1}'),
        ("{{payload.arr.0.x}}", "1"),
        ("{{payload.d}}", '{"a.b": 1}'),
        ("{{payload.é}}", "ok"),
        ("{{payload.sp ace}}", "2"),
        ("{{sp ace}}", "2"),
        ("{{payload.steps}} {{payload.run}}", "mine too"),
        ("{{payload.arr[0]}}", "a key"),
        ("{{steps.first.output}}", '{"key":"value"}'),
        ("{{steps.first.exit_code}}", "0"),
        ("{{steps.red.output}}", "boom"),
        ("{{steps.items.rows.0.1}}", "a"),
        ("{{steps.items.keys.values}}", "3"),
        ("{{steps.items}}", '{"rows": [[1, "a"]], "keys": {"values": 3}}'),
        ("{{run.id}} {{run.started_at}}[{{run.key}}]", "r-1 2027-01-01T09:00:00Z[]"),
        # literal braces
        (r"\{{", "{{"),
        (r"\{{payload.branch}}", "{{payload.branch}}"),
        (r"\\{{payload.branch}}", r"\{{payload.branch}}"),
        (r"\{{{{payload.branch}}", "{{main"),
        (r"{{payload.branch}}\{{x", "main{{x"),
        (r"docker ps --format '\{{.Names}}'", "docker ps --format '{{.Names}}'"),
        ("}}", "}}"),
        ("a }} b", "a }} b"),
        ("{{payload.branch}}}", "main}"),
        ('{"a": {"b": {{payload.n}}}}', '{"a": {"b": 0}}'),
        ("{ {", "{ {"),
        ("{", "{"),
        ("$HOME ${X} `x` % \\ \\1 $& {0} %s {% raw %} {#x#}",) * 2,
    ],
)
def test_a_text_renders(text, rendered):
    check(text)

    assert render_text(text, SCOPE.resolve) == rendered


@pytest.mark.parametrize(
    "value",
    [
        "{{payload.secret}}", "{{ 7*7 }}", "{{", "}}", "{#x#}", "{% raw %}", "$&", r"\1",
        "%s %(x)s", "{0}", r"\{{x}}", "'", '"', "`id`", "$HOME", "a\nb", "-rf", "*", "x\n",
        "x" * 200_000,
    ],
)  # fmt: skip
def test_a_value_lands_as_it_is_and_is_never_rendered_again(value):
    payload = {"msg": value, "secret": "leaked"}
    scope = Scope(payload=payload, run=RUN)

    assert render_text("echo {{payload.msg}}!", scope.resolve) == f"echo {value}!"
    assert render_value("{{payload.msg}}", scope.resolve) == value


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("payload.S", "“payload” has no “S”"),
        ("payload.missing.deep", "“payload” has no “missing”"),
        ("payload.d.a.b", "“payload.d” has no “a”"),
        ("payload.arr.5.x", "“payload.arr” is a list of 1, without “5”"),
        ("payload.arr.-1", "“payload.arr” is a list of 1, without “-1”"),
        ("payload.arr.٠", "“payload.arr” is a list of 1, without “٠”"),
        ("payload.arr.length", "“payload.arr” is a list of 1, without “length”"),
        ("payload.arr[1].x", "“payload” has no “arr[1]”"),
        ("payload.branch.upper", "“payload.branch” is text, without “upper”"),
        ("payload.n.x", "“payload.n” is a number, without “x”"),
        ("payload.f.x", "“payload.f” is true or false, without “x”"),
        ("payload.z.x", "“payload.z” is null, without “x”"),
        ("payload.__class__", "“payload” has no “__class__”"),
        ("payload.items", "“payload” has no “items”"),
        ("payload.keys", "“payload” has no “keys”"),
        ("7*7", "“payload” has no “7*7”"),
        ("missing", "“payload” has no “missing”"),
        ("arr.5", "“payload.arr” is a list of 1, without “5”"),
        ("steps.nobody.output", "no step “nobody” has ended before this one"),
        ("steps.left-out.output", "step “left-out” was skipped"),
        ("steps.lost.output", "step “lost” has no result"),
        ("steps.first.outputs", "“steps.first” has no “outputs”"),
        ("run.payload", "a run has id, key and started_at"),
    ],
)
def test_a_missing_path_is_named_as_written(path, reason):
    with pytest.raises(Unresolved) as missing:
        SCOPE.resolve(path)

    assert missing.value.path == path
    assert missing.value.reason == reason
    assert str(missing.value) == f"“{path}” has no value: {reason}"


def test_keys_named_like_methods_are_data():
    payload = {"items": [{"id": 7}], "keys": "k", "__class__": "c", "get": None}
    scope = Scope(payload=payload, run=RUN)

    text = "{{payload.items.0.id}} {{keys}} {{payload.__class__}} {{payload.get}}"

    assert render_text(text, scope.resolve) == "7 k c null"


def test_an_empty_payload_has_nothing():
    with pytest.raises(Unresolved, match=r"payload\.s"):
        render_text("{{payload.s}}", Scope(payload={}, run=RUN).resolve)


def test_the_whole_payload_is_a_value():
    assert SCOPE.resolve("payload") == PAYLOAD


def test_steps_may_be_looked_up_one_by_one():
    asked = []

    def steps(name):
        asked.append(name)
        return STEPS.get(name)

    scope = Scope(payload={}, run=RUN, steps=steps)

    assert render_text("{{steps.red.exit_code}}", scope.resolve) == "2"
    assert asked == ["red"]


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("{{}}", 0, "it names nothing"),
        ("a {{ \t\n }}", 2, "it names nothing"),
        ("{{payload..s}}", 0, "a word of its path is missing"),
        ("{{payload.}}", 0, "a word of its path is missing"),
        ("{{.Names}}", 0, "a word of its path is missing"),
        ("{{payload . s}}", 0, "a word of its path is missing"),
        ("{{payload.s", 0, "it is not closed"),
        ("ok {{branch}} {{payload.s }", 14, "it is not closed"),
        ("{{ {{payload.s}} }}", 0, "its path holds '{'"),
        ("{{{payload.s}}}", 0, "its path holds '{'"),
        ("{{payload.a\nb}}", 0, "its path holds '\\n'"),
        ("{{ payload.s | upper }}", 0, "its path holds '|'"),
        ("{{f(x)}}", 0, "its path holds '('"),
        ("{{payload['s']}}", 0, 'its path holds "\'"'),
        ("{{steps}}", 0, "it names no step"),
        ("{{run}}", 0, "a run has id, key and started_at"),
        ("{{run.state}}", 0, "a run has id, key and started_at"),
    ],
)
def test_a_malformed_placeholder_is_refused_with_its_place(text, position, reason):
    with pytest.raises(Malformed) as refusal:
        check(text)

    assert refusal.value.position == position
    assert refusal.value.reason.startswith(reason)
    assert f"at character {position + 1}" in str(refusal.value)
    assert text[position:].startswith(refusal.value.snippet)


def test_a_lone_placeholder_keeps_the_type_of_its_value():
    args = {
        "number": "{{payload.n}}",
        "list": ["{{payload.arr}}", "{{ payload.f }}", 3, None],
        "text": "n={{payload.n}}",
        "deep": {"null": "{{payload.z}}", "literal": r"\{{payload.z}}"},
        "{{key}}": "as it is",
    }

    rendered = render_value(args, SCOPE.resolve)

    assert rendered == {
        "number": 0,
        "list": [[{"x": 1}], False, 3, None],
        "text": "n=0",
        "deep": {"null": None, "literal": "{{payload.z}}"},
        "{{key}}": "as it is",
    }


def test_the_paths_of_a_value_are_found_in_order():
    value = {
        "a": ["{{x}} {{steps.one.output}}", 1],
        "b": {"c": r"\{{no}} {{ run.id }}"},
    }

    assert paths(value) == ["x", "steps.one.output", "run.id"]


def test_a_read_only_result_renders_as_json():
    assert as_text(MappingProxyType({"a": [1]})) == '{"a": [1]}'


PIECES = st.lists(
    st.sampled_from(
        ["{{", "}}", "\\", "{", "}", ".", " ", "\n", "payload", "run", "é", "0"]
    )
    | st.text(max_size=3)
).map("".join)


@given(PIECES)
def test_any_text_renders_or_is_refused_by_name(text):
    fault = None
    try:
        check(text)
        render_text(text, SCOPE.resolve)
    except (Malformed, Unresolved) as error:
        fault = error

    if isinstance(fault, Malformed):
        assert 0 <= fault.position < len(text)
    elif isinstance(fault, Unresolved):
        assert fault.path in paths(text)


@given(st.text(), st.text())
def test_any_value_lands_verbatim(before, value):
    scope = Scope(payload={"v": value}, run={})
    before = before.replace("{", "")
    if before.endswith("\\"):
        before += " "

    assert render_text(before + "{{payload.v}}", scope.resolve) == before + value
