"""What a model's failure means: another try later, or the end of the turn, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic_ai import exceptions as ai

from threads import phrases
from threads.runtime.faults import Broken, Fault
from threads.text import one_line

LONGEST_WAIT = 300.0  # seconds a provider may ask for; a run's own retries wait longer
WAIT = 5.0
SHORTEST_KEY = 4  # shorter ones would take letters out of plain words
KEY = re.compile(r"\b(?:sk|key|pk|rk)[-_][\w*-]{4,}", re.IGNORECASE)
PASSING = (
    ai.ModelRateLimitError,
    ai.ModelUnavailableError,
    ai.ModelServerError,
    ai.ModelConnectionError,
    ai.ModelRequestTimeout,
    ai.UnexpectedModelBehavior,  # an answer nobody can read
    OSError,
    TimeoutError,
)
LASTING = (
    (ai.ModelContextWindowExceededError, phrases.MODEL_FULL),
    (ai.ModelAuthenticationError, phrases.MODEL_KEY),
    (ai.ModelNotFoundError, phrases.MODEL_UNKNOWN),
    (ai.ModelQuotaExceededError, phrases.MODEL_QUOTA),
    (ai.ContentFilterError, phrases.MODEL_REFUSED),
)
RETRY_STATUS = frozenset({408, 409, 425, 429})


def sorted_out(
    error: Exception, *, model: str, keys: Sequence[str] = ()
) -> Fault | Broken:
    """Return the fault or the end that a failed request is."""
    said = told(error, keys)
    for kind, words in LASTING:
        if isinstance(error, kind):
            return Broken(words.format(model=model, said=said))
    if isinstance(error, PASSING) or passing_status(error) or broke_off(error):
        return Fault(
            phrases.MODEL_AWAY.format(model=model, said=said), seconds=wait(error)
        )
    return Broken(phrases.MODEL_FAILED.format(model=model, said=said))


def broke_off(error: Exception) -> bool:
    """Whether the answer ended before its end: no status says how, nobody refused."""
    refused = isinstance(error, ai.ModelHTTPError | ai.ModelRequestRejectedError)
    return isinstance(error, ai.ModelAPIError) and not refused


def passing_status(error: Exception) -> bool:
    status = getattr(error, "status_code", 0)
    return isinstance(status, int) and (status >= 500 or status in RETRY_STATUS)


def wait(error: Exception) -> float:
    """Return the seconds the provider asks for, within bounds."""
    headers = getattr(error, "headers", None) or {}
    try:
        asked = float(headers.get("retry-after", WAIT))
    except ValueError:
        return WAIT  # a date: ours is as good a guess
    return min(max(asked, 0.0), LONGEST_WAIT) if asked == asked else WAIT


def told(error: Exception, keys: Sequence[str]) -> str:
    """Return what was said, as one line without the keys or what looks like one."""
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    words = message_in(body) or str(error) or type(error).__name__
    for key in keys:
        if len(key) >= SHORTEST_KEY:
            words = words.replace(key, "…")
    line = KEY.sub("…", one_line(words, 200))
    return f"{status}: {line}" if status else line


def message_in(body: object) -> str:
    match body:
        case {"error": {"message": str(words)}} | {"message": str(words)}:
            return words
        case {"error": str(words)}:
            return words
        case _:
            return ""
