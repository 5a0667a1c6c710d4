"""The process of one call with hard limits: an order in, an answer out, as files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import django
from celery import current_app

from threads.runtime import letters
from workflows.calling import Calling
from workflows.engine import functions
from workflows.engine.listed import CallFailed, Listed


def main(folder: Path) -> None:
    # The settings' package brings the app that shared tasks belong to.
    django.setup()
    current_app.loader.import_default_modules()
    order = json.loads((folder / letters.ORDER).read_bytes())
    letters.begin(folder)
    letters.write(folder / letters.ANSWER, answer(order))


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
