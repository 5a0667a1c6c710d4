"""The allow-list of `call` steps: what each name stands for, and where it runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.conf import settings

from threads import text
from workflows import phrases

QUICK, FUNCTION, CELERY = "quick", "function", "celery"
NAMED = {
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
}
OPEN = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


class CallFailed(Exception):
    """The call ended without a result: a failed step, in words."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        self.final = final  # another try would end the same way
        super().__init__(reason)


@dataclass(frozen=True)
class Listed:
    """One entry of the allow-list."""

    name: str
    how: str
    target: str


@lru_cache(maxsize=1024)
def read(name: str, value: str) -> Listed:
    how, _, target = value.rpartition(":")
    return Listed(name, how or FUNCTION, target)


def listed(name: str) -> Listed:
    """Return what a step names; raise CallFailed where it is not allowed here."""
    value = settings.CALLS.get(name)
    if value is None:
        raise CallFailed(phrases.NOT_ALLOWED.format(function=name))
    return read(name, value)


def refuse_misfit(
    name: str, signature: inspect.Signature | None, args: Mapping[str, Any]
) -> None:
    """Raise CallFailed for an argument that is missing or not taken, by its name."""
    if signature is None:
        return
    reason = next(misfits(name, signature, args), None)
    if reason is not None:
        raise CallFailed(reason, final=True)


def misfits(
    name: str, signature: inspect.Signature, args: Mapping[str, Any]
) -> Iterator[str]:
    parameters = signature.parameters.values()
    taken = {p.name for p in parameters if p.kind in NAMED}
    if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        for extra in args:
            if extra not in taken:
                yield phrases.NO_ARGUMENT.format(function=name, name=extra)
    for p in parameters:
        given = p.kind in OPEN or p.default is not p.empty
        if not given and not (p.name in taken and p.name in args):
            yield phrases.NEEDS_ARGUMENT.format(function=name, name=p.name)


@lru_cache(maxsize=256)
def signature_of(function: Any) -> inspect.Signature | None:
    """Return what a function takes; None where that cannot be known."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def said(error: BaseException) -> str:
    """Return an exception as a reason of one line."""
    name = type(error).__name__
    try:
        words = str(error)
    except Exception:  # noqa: BLE001  the function's own exception, and broken too
        words = ""
    return text.one_line(f"{name}: {words}" if words else name, 500)
