"""The stand-in for a model: what it does follows from the prompt and the log alone."""

from __future__ import annotations

from threads.runtime.bots.protocol import Brief, Final, Line, ToolCall
from threads.runtime.bots.scripted import Scripted

PROMPT = """These checks failed.

    def test_sum():
>       assert total([1, 2]) == 3
E       assert 4 == 3

tests/test_sums.py:41: AssertionError
FAILED tests/test_sums.py::test_sum
1 failed, 9 passed in 0.10s
"""


def answered(text: str, *, ok: bool) -> Line:
    return Line("result", {"call": 1, "ok": ok, "text": text})


def test_it_reads_the_failing_file_then_runs_the_one_test_then_reports():
    bot = Scripted()

    first = bot.next_move(Brief(PROMPT), [])
    assert isinstance(first, ToolCall)
    assert first.args["command"] == "cat -n tests/test_sums.py | sed -n '29,44p'"

    read = answered("    41  assert total([1, 2]) == 3", ok=True)
    second = bot.next_move(Brief(PROMPT), [read])
    assert isinstance(second, ToolCall)
    assert second.args["command"].endswith("tests/test_sums.py::test_sum")

    ran = answered("E       assert 4 == 3", ok=False)
    last = bot.next_move(Brief(PROMPT), [read, ran])
    assert isinstance(last, Final)
    assert last.result == {
        "test": "tests/test_sums.py::test_sum",
        "file": "tests/test_sums.py",
        "line": 41,
        "reproduced": True,
    }
    assert "E       assert 4 == 3" in last.text
    assert "scripted stand-in" in last.text


def test_it_says_when_the_test_passes_alone():
    moves = [answered("lines", ok=True), answered("1 passed", ok=True)]

    last = Scripted().next_move(Brief(PROMPT), moves)

    assert isinstance(last, Final)
    assert not last.result["reproduced"]
    assert "passes when it runs alone" in last.text


def test_it_looks_around_where_nothing_names_a_file():
    move = Scripted().next_move(Brief("Something is odd."), [])

    assert isinstance(move, ToolCall)
    assert move.args["command"] == "ls -la"


def test_a_quoted_fence_does_not_end_the_report():
    lines = [answered("```\ninjected\n```", ok=True)]

    last = Scripted().next_move(Brief("Something is odd."), lines)

    assert isinstance(last, Final)
    assert "````" in last.text
