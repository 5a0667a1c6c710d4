"""Surfaces speak of workflows, runs, steps and attempts. Engine words stay inside."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATTERNS = (
    "templates/**/*.html",
    "admin/**/*.py",
    "admin.py",
    "cli/**/*.py",
    "webhooks/**/*.py",
    "models/**/*.py",
    "api.py",
    "exceptions.py",
    "forms.py",
    "phrases.py",
    "shown.py",
    "shown/**/*.py",
    "lines.py",
    "notify.py",
    "pages.py",
    "refusals.py",
    "words.py",
    "urls.py",
    "views.py",
    "moves.py",
    "documents.py",
    "why.py",
)
SURFACES = [
    path
    for app in ("workflows", "threads")
    for pattern in PATTERNS
    for path in sorted((ROOT / app).glob(pattern))
]
ENGINE_WORDS = re.compile(
    r"(?<![a-z])(task|queue|checkpoint|lease|celery|broker)", re.IGNORECASE
)
TOOL = "dispatch_task"
# Names that only code and schema read: models, constraints, indexes, relations.
SCHEMA = re.compile(r"[A-Za-z_]+")


def spoken(path: Path) -> Iterator[str]:
    """Yield what a person could read: a template's lines, a module's strings."""
    text = path.read_text(encoding="utf-8").replace(TOOL, "")
    if path.suffix == ".html":
        yield from re.sub(r"\{#.*?#\}", "", text).splitlines()
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if "models" in path.parts and SCHEMA.fullmatch(node.value):
                continue
            yield node.value


@pytest.mark.parametrize("path", SURFACES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_surface_never_speaks_of_the_engine(path):
    assert [line for line in spoken(path) if ENGINE_WORDS.search(line)] == []


@pytest.mark.parametrize(
    "pattern", sorted({*PATTERNS} - {"webhooks/**/*.py", "api.py"})
)
def test_the_surfaces_are_where_they_are_looked_for(pattern):
    assert [app for app in ("workflows", "threads") if [*(ROOT / app).glob(pattern)]]


@pytest.mark.parametrize("words", ["Retry the queued task", "lease expired", "Celery"])
def test_an_engine_word_is_recognised(words):
    assert ENGINE_WORDS.search(words)


@pytest.mark.parametrize("words", ["released", "please", "multitasking"])
def test_a_word_that_only_holds_one_passes(words):
    assert not ENGINE_WORDS.search(words)
