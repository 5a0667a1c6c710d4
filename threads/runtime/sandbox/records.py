"""Records of finished commands, as results."""

from __future__ import annotations

import base64
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from threads.runtime.sandbox import output
from threads.runtime.sandbox.protocol import Result, Stop
from threads.runtime.sandbox.supervision import record

# A command whose supervisor was lost on the way.
UNKNOWN = Result(
    exit_code=None,
    signal=None,
    timed_out=False,
    cancelled=False,
    interrupted=True,
    adopted=False,
    output="",
    truncated=0,
    seconds=0.0,
)


def result_of(ended: dict[str, Any]) -> Result:
    head, tail = base64.b64decode(ended["head"]), base64.b64decode(ended["tail"])
    return Result(
        exit_code=ended["exit_code"],
        signal=ended["signal"],
        timed_out=ended["timed_out"],
        cancelled=ended["cancelled"],
        interrupted=ended["interrupted"],
        adopted=ended.get("adopted", False),
        output=output.render(head, tail, ended["dropped"]),
        truncated=output.left(head, tail, ended["dropped"]),
        seconds=ended["seconds"],
    )


def as_asked(result: Result, asked: Stop | None) -> Result:
    """Call it cancelled where a cancel came before anything had begun or was known."""
    if result.interrupted and asked is Stop.CANCEL:
        return replace(result, interrupted=False, cancelled=True)
    return result


def adopt(folder: Path, key: str) -> Result | None:
    found = record.read(folder, key)
    return result_of({**found, "adopted": True}) if found else None


def discard(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
