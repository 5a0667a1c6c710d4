"""What a worker and a process of its own leave each other in a folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

ORDER, BEGUN, ANSWER = "order.json", "begun", "answer.json"


def prepare(folder: Path) -> None:
    """Make the folder for another beginning."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / BEGUN).unlink(missing_ok=True)


def begin(folder: Path) -> None:
    (folder / BEGUN).touch()


def read_answer(folder: Path) -> dict[str, Any] | None:
    """Return what was left in a folder; None where it did not come to its end."""
    try:
        answer: dict[str, Any] = json.loads((folder / ANSWER).read_bytes())
    except (OSError, ValueError):
        return None
    return answer


def write(path: Path, value: dict[str, Any]) -> None:
    """Write a file whole or not at all, for this user alone."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(opened, "w") as file:
        json.dump(value, file)
    draft.replace(path)
