"""Views, webhooks, admin and commands call verbs; they never write a row themselves."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WRITES = {
    "create",
    "update",
    "save",
    "delete",
    "bulk_create",
    "get_or_create",
    "update_or_create",
}
DOORS = [
    path
    for app in ("workflows", "threads", "project")
    for pattern in (
        "views.py",
        "moves.py",
        "shown.py",
        "shown/**/*.py",
        "webhooks/**/*.py",
        "admin/**/*.py",
        "admin.py",
        "cli/**/*.py",
        "management/**/*.py",
    )
    for path in sorted((ROOT / app).glob(pattern))
]


def written(path: Path) -> list[str]:
    return [
        f"{path.name}:{node.lineno} {node.func.attr}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in WRITES
    ]


@pytest.mark.parametrize("path", DOORS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_door_calls_a_verb_and_writes_nothing_itself(path):
    assert written(path) == []


def test_the_doors_are_where_they_are_looked_for():
    names = {str(path.relative_to(ROOT)) for path in DOORS}
    assert {"workflows/shown/run.py", "workflows/views.py", "threads/admin.py"} <= names
