"""Functions a `call` step may name: allow-listed in settings, plain Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from threads import text
from workflows import phrases, plan, templating
from workflows.engine import rendering
from workflows.journal import Ended, Held, Line


class CallFailed(Exception):
    """The function raised, or what it returned is not JSON."""


@lru_cache(maxsize=256)
def function(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = import_string(settings.CALLS[name])
    return found


def begin(held: Held, step: plan.Call, see: templating.Scope) -> Ended:
    """Call the function under the claim; return how the step ended."""
    args: dict[str, Any] = {
        name: templating.render_value(value, see.resolve)
        for name, value in step.args.items()
    }
    shown = ", ".join(f"{k}={templating.as_text(v)}" for k, v in args.items())
    words = phrases.CALLING.format(function=step.function, args=shown)
    lines = [rendering.instructed(step.name, words)]
    try:
        result = call(step.function, args)
    except CallFailed as error:
        return Ended(
            step.name,
            step.kind,
            "failed",
            instruction=words,
            error=str(error),
            lines=[*lines, Line(str(error))],
        )
    if result is not None:
        said = phrases.RETURNED.format(
            function=step.function, result=templating.as_text(result)
        )
        lines.append(Line(said))
    return Ended(
        step.name,
        step.kind,
        "completed",
        instruction=words,
        result={"result": result},
        lines=lines,
    )


def call(name: str, args: dict[str, Any]) -> Any:
    """Call the function and return its result as JSON keeps it; raise CallFailed."""
    if name not in settings.CALLS:
        raise CallFailed(f"no function called “{name}” is allowed here")
    try:
        result = function(name)(**args)
    except Exception as error:
        said = text.one_line(f"{type(error).__name__}: {error}", 500)
        raise CallFailed(said) from error
    if result is None or isinstance(result, (bool, int)):
        return result
    try:
        kept = json.loads(json.dumps(result, allow_nan=False))
        text.refuse(kept, where="result")
    except (TypeError, ValueError) as error:
        raise CallFailed(f"what it returned cannot be kept: {error}") from error
    return kept
