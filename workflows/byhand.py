"""What a person puts in the place of how a step would end, checked by its kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threads import text
from workflows.exceptions import BadResult, NeedsReason

LIMIT = 1_000_000  # characters of JSON
REASON_LIMIT = 300
# What each kind leaves, and what stands for a part that is not given.
ROOTS: dict[str, dict[str, Any]] = {
    "run_command": {"output": "", "exit_code": 0, "truncated": 0},
    "dispatch_task": {"output": "", "result": None},
    "human_gate": {"approved": True, "reply": "", "by": "", "form": None},
    "sleep": {"until": ""},
    "call": {"result": None},
    "query": {"rows": [], "truncated": 0},
    "wait_for_event": {"event": "", "payload": {}, "key": ""},
    "run_workflow": {"run": "", "state": "completed", "result": None},
    "open_thread": {"thread": "", "title": "", "url": ""},
}
KNOWN = {"by", "until", "event", "run"}  # parts that a run can tell itself
SILENT = {"sleep", "call", "query", "open_thread"}  # kinds whose end is no event
TYPES = {str: "text", int: "a whole number", bool: "true or false", list: "a list"}


@dataclass(frozen=True)
class Hand:
    """A step skipped, or completed with a result, and why."""

    reason: str
    skips: bool = False
    result: object = None

    def checked_reason(self) -> str:
        clean = text.one_line(self.reason, REASON_LIMIT)
        if not clean:
            raise NeedsReason
        return clean

    def kept(
        self, kind: str, *, who: str, at: str, known: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return what stands on the step; raise NeedsReason or BadResult.

        `known` holds parts of the result that the run itself knows.
        """
        return {
            "state": "skipped" if self.skips else "completed",
            "result": None if self.skips else checked(kind, self.result, known),
            "reason": self.checked_reason(),
            "by": who,
            "at": at,
        }


def checked(kind: str, result: object, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result as a step of this kind would leave it."""
    try:
        text.refuse(result, where="result")
    except text.Unclean as error:
        raise BadResult(str(error)) from None
    root = ROOTS.get(kind)
    if kind == "call" and not (isinstance(result, dict) and {*result} == {"result"}):
        result = {"result": result}
    if not isinstance(result, dict):
        names = ", ".join(root or {}) or "any names"
        raise BadResult(f"result: must be a JSON object (of {names})")
    if len(json.dumps(result, ensure_ascii=False)) > LIMIT:
        raise BadResult(f"result: longer than {LIMIT} characters")
    if root is None:
        return result
    for name, value in result.items():
        refuse_part(kind, root, name, value)
    mine = {name: value for name, value in known.items() if name in root}
    return {**root, **mine, **result}


def refuse_part(kind: str, root: Mapping[str, Any], name: str, value: object) -> None:
    if name not in root:
        known = ", ".join(root)
        raise BadResult(f"result.{name}: a {kind} leaves {known} and nothing else")
    wanted = type(root[name])
    if wanted in TYPES and type(value) is not wanted:
        raise BadResult(f"result.{name}: must be {TYPES[wanted]}")
