"""The tool `report`: what later steps read as the step's result."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field

from threads import phrases
from threads.models import Turn
from threads.runtime.tools.protocol import Args, Handler
from threads.runtime.watch import Watch
from threads.text import mended

LIMIT = 100_000  # characters of JSON


class Report(Args):
    result: Annotated[
        dict[str, Any], Field(description="The findings as one JSON object.")
    ]


def use(turn: Turn, args: Report, *, number: int, watch: Watch) -> dict[str, Any]:
    """Keep the result with the call; the last one of a turn counts."""
    try:
        size = len(json.dumps(args.result, allow_nan=False))
    except (ValueError, RecursionError):
        return {"ok": False, "text": phrases.REPORT_UNREAD}
    if size > LIMIT:
        return {"ok": False, "text": phrases.REPORT_LONG.format(limit=LIMIT)}
    return {"ok": True, "text": phrases.REPORTED, "result": mended(args.result)}


handler = Handler(
    "report",
    "Leave the result of this work as JSON for the steps that follow. Call it once, "
    "before the final answer; a later call replaces an earlier one.",
    Report,
    use,
)
