"""The process of one call with hard limits: an order in, an answer out, as files."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import django
from celery import current_app

from workflows.calling import Calling
from workflows.engine import functions
from workflows.engine.listed import CallFailed, Listed

ORDER, BEGUN, ANSWER = "order.json", "begun", "answer.json"


def write_order(folder: Path, order: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / BEGUN).unlink(missing_ok=True)
    write(folder / ORDER, order)


def read_answer(folder: Path) -> dict[str, Any] | None:
    """Return what a call left in its folder; None where it did not come to its end."""
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


def main(folder: Path) -> None:
    # The settings' package brings the app that shared tasks belong to.
    django.setup()
    current_app.loader.import_default_modules()
    order = json.loads((folder / ORDER).read_bytes())
    (folder / BEGUN).touch()
    write(folder / ANSWER, answer(order))


def answer(order: dict[str, Any]) -> dict[str, Any]:
    try:
        result = functions.call(
            Listed(**order["what"]),
            order["args"],
            Calling(**order["under"]),
            tries=order["tries"],
        )
    except CallFailed as failed:
        return {"failed": str(failed), "final": failed.final}
    return {"result": result}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
