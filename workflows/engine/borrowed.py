"""A Celery task that the shop has already, called as a step in this very process.

Its outcome is the step's: nothing is sent, no result backend is asked, and the step's
own `retries` decide when it is tried again.
"""

from __future__ import annotations

import importlib
import socket
from functools import lru_cache
from typing import Any

from celery import Task, current_app, states
from celery.app.trace import build_tracer
from celery.exceptions import Retry

from workflows import phrases
from workflows.calling import Calling
from workflows.engine import listed
from workflows.engine.listed import CallFailed, Listed


@lru_cache(maxsize=256)
def find(name: str) -> Any:
    """Return the task registered under a name; raise CallFailed for an unknown one.

    A module that nobody has loaded yet is loaded by the name's own address.
    """
    if name in current_app.tasks:
        return current_app.tasks[name]
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except (ImportError, ValueError):
        found = None
    if name in current_app.tasks:
        return current_app.tasks[name]
    # The task of another app of the shop's own stands in that app's registry.
    found = getattr(found, "_get_current_object", lambda: found)()
    if not isinstance(found, Task):
        raise CallFailed(phrases.NOT_KNOWN.format(function=name))
    return found


def call(what: Listed, args: dict[str, Any], under: Calling, *, tries: int) -> Any:
    task = find(what.target)
    listed.refuse_misfit(what.name, listed.signature_of(task.run), args)
    # Eager, so that a retry is raised and not posted, and nothing is stored.
    trace = build_tracer(task.name, task, eager=True, propagate=False, app=task.app)
    ended = trace(under.key, (), args, request(task, under, tries))
    if ended.info is None:
        return ended.retval
    return outcome(what, ended.info.state, ended.info.retval)


def request(task: Any, under: Calling, tries: int) -> dict[str, Any]:
    """Return what the task reads of itself in `self.request`."""
    return {
        "id": under.key,
        "task": task.name,
        "root_id": under.key,
        "parent_id": None,
        "retries": tries - 1,
        "is_eager": True,
        "logfile": None,
        "loglevel": 0,
        "hostname": socket.gethostname(),
        "callbacks": None,
        "errbacks": None,
        "timelimit": None,
        "ignore_result": True,
        "headers": {
            "threadwork_run": under.run,
            "threadwork_step": under.step,
            "threadwork_key": under.key,
            "threadwork_attempt": under.attempt,
        },
        "delivery_info": {
            "is_eager": True,
            "exchange": None,
            "routing_key": None,
            "priority": None,
        },
    }


def outcome(what: Listed, state: str, error: Any) -> None:
    """Raise CallFailed for all but Ignore, which says that nothing is left to do."""
    if state == states.IGNORED:
        return
    if state == states.REJECTED:
        why = getattr(error, "reason", None)
        reason = phrases.CALL_REJECTED.format(function=what.name, reason=why or "")
        raise CallFailed(reason.rstrip(": "))
    if isinstance(error, Retry):
        why = listed.said(error.exc) if error.exc else str(error.message or "")
        reason = phrases.ASKED_AGAIN.format(function=what.name, reason=why)
        raise CallFailed(reason.rstrip(": "))
    if isinstance(error, MemoryError):
        raise CallFailed(phrases.TOO_MUCH_MEMORY)
    raise CallFailed(listed.said(error))
