"""docs/failures.md promises only what a test of this suite shows (C10)."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\|(?! when …|---).*$", re.MULTILINE)
PROOF = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
# The words of test_words.py; an operators' page may speak of the broker.
ENGINE_WORDS = re.compile(r"(?<![a-z])(task|queue|checkpoint|lease|celery)", re.I)
LINES = ROW.findall(PAGE)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def proofs(line: str) -> list[tuple[str, str]]:
    return PROOF.findall(cells(line)[-1])


def skipped(marks: list[ast.expr]) -> bool:
    """Tell whether marks skip always: `skip` does, `skipif` depends on the machine."""
    named = [mark.func if isinstance(mark, ast.Call) else mark for mark in marks]
    return any(ast.unparse(mark) in {"pytest.mark.skip", "skip"} for mark in named)


def module_marks(tree: ast.Module) -> list[ast.expr]:
    """Return what a module's `pytestmark` says of all its tests."""
    found: list[ast.expr] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == (
            "pytestmark"
        ):
            listed = isinstance(node.value, ast.List)
            found += node.value.elts if listed else [node.value]  # type: ignore[attr-defined]
    return found


def shown_in(source: str) -> set[str]:
    """Return the tests that really run, as pytest collects them from a module."""
    tree = ast.parse(source)
    if skipped(module_marks(tree)):
        return set()
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not skipped(node.decorator_list)
    }


@pytest.mark.parametrize("line", LINES, ids=lambda line: cells(line)[0][:60])
def test_a_line_says_what_happens_and_names_a_test_that_runs(line):
    trouble, happens, *_ = cells(line)

    assert len(cells(line)) == 4
    assert trouble
    assert happens
    assert proofs(line), "the line names no test"
    for path, name in proofs(line):
        assert (ROOT / path).is_file(), f"there is no file {path}"
        source = (ROOT / path).read_text(encoding="utf-8")
        assert name in shown_in(source), f"{path} has no test {name} that runs"


def test_there_are_as_many_lines_as_there_are_kinds_of_trouble():
    assert len(LINES) >= 40


def test_no_two_neighbours_lean_on_the_same_test():
    for line, following in pairwise(LINES):
        assert not set(proofs(line)) & set(proofs(following)), following


def test_the_page_speaks_the_words_of_the_house():
    prose = re.sub(r"`[^`]*`", "", PAGE)

    assert ENGINE_WORDS.findall(prose) == []


def test_a_skipped_or_missing_test_is_no_proof():
    source = (
        "@pytest.mark.skip\ndef test_a(): ...\n"
        "@pytest.mark.skip(reason='x')\ndef test_b(): ...\n"
        "@pytest.mark.skipif(ROOT, reason='x')\ndef test_c(): ...\n"
        "def helper(): ...\n"
    )

    assert shown_in(source) == {"test_c"}
    assert shown_in("pytestmark = pytest.mark.skip\ndef test_a(): ...") == set()
    assert shown_in("pytestmark = [pytest.mark.skip]\ndef test_a(): ...") == set()
    assert not PROOF.findall("`tests/x.py`")
