"""Modules and templates stay within the house's budgets."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    path
    for top in ("project", "threads", "workflows", "tests")
    for path in sorted((ROOT / top).rglob("*.py"))
    if "migrations" not in path.parts
]
TEMPLATES = [
    path
    for top in ("project", "threads", "workflows")
    for path in sorted((ROOT / top).rglob("templates/**/*.html"))
]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_fits_in_a_head(path):
    longest = 600 if "tests" in path.parts else 300

    assert len(path.read_text(encoding="utf-8").splitlines()) <= longest


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_fits_on_a_page(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 80


def test_the_budgets_are_held_against_something():
    assert len(MODULES) > 100
