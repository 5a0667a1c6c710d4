"""Call what a step names, here and now, and keep what it returns as JSON does."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.utils.module_loading import import_string

from threads import text
from workflows import calling, phrases
from workflows.calling import Calling
from workflows.engine import borrowed, listed
from workflows.engine.listed import CallFailed, Listed

logger = logging.getLogger(__name__)


@lru_cache(maxsize=256)
def function(target: str) -> Callable[..., Any]:
    found: Callable[..., Any] = import_string(target)
    return found


def call(what: Listed, args: dict[str, Any], under: Calling, *, tries: int = 1) -> Any:
    """Return the result as it can be kept; raise CallFailed with the reason."""
    try:
        with calling.under(under):
            if what.how == listed.CELERY:
                result = borrowed.call(what, args, under, tries=tries)
            else:
                result = call_plainly(what, args)
    except CallFailed:
        raise
    except MemoryError as error:
        raise CallFailed(phrases.TOO_MUCH_MEMORY) from error
    except (Exception, SystemExit) as error:
        logger.info("%s of step %s failed", what.name, under.key, exc_info=error)
        raise CallFailed(listed.said(error)) from error
    return keep(result)


def call_plainly(what: Listed, args: dict[str, Any]) -> Any:
    found = function(what.target)
    listed.refuse_misfit(what.name, listed.signature_of(found), args)
    result = found(**args)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def keep(result: Any) -> Any:
    """Return a result as JSON keeps it; raise CallFailed where it cannot be kept.

    Text is cleaned as a command's output is; dates, decimals and the like become text.
    """
    if result is None or isinstance(result, bool):
        return result
    try:
        raw = json.dumps(
            result, allow_nan=False, ensure_ascii=False, cls=DjangoJSONEncoder
        )
        size = len(raw.encode("utf-8", "surrogatepass"))
        if size > settings.CALL_RESULT_LIMIT:
            raise CallFailed(too_large(size), final=True)
        kept = text.mended(json.loads(raw))
        text.refuse(kept, where="result")
    except (TypeError, ValueError, RecursionError) as error:
        reason = phrases.NOT_KEPT.format(reason=text.one_line(str(error), 300))
        raise CallFailed(reason, final=True) from error
    return kept


def too_large(size: int) -> str:
    limit = settings.CALL_RESULT_LIMIT
    return phrases.RESULT_TOO_LARGE.format(size=f"{size:,}", limit=f"{limit:,}")
