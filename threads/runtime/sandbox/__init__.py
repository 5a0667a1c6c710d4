"""Where commands run: the sandbox by its name, or the best this machine can do."""

from __future__ import annotations

import functools
import importlib
import logging

from django.conf import settings

from threads.runtime.sandbox.bubblewrap import Bubblewrap
from threads.runtime.sandbox.process import Process
from threads.runtime.sandbox.protocol import Sandbox, UnknownSandbox

NAMES: dict[str, type[Bubblewrap | Process]] = {
    Bubblewrap.name: Bubblewrap,
    Process.name: Process,
}

logger = logging.getLogger(__name__)


def choose(setting: str) -> Sandbox:
    """Return the sandbox a setting names; `auto` is bubblewrap where that works."""
    if setting != "auto":
        return get(setting)
    return best(tuple(settings.SANDBOX_READ_ONLY))


def get(name: str) -> Sandbox:
    """Return a sandbox by its name or by the dotted path of its class."""
    return build(name, tuple(settings.SANDBOX_READ_ONLY))


@functools.cache
def build(name: str, read_only: tuple[str, ...]) -> Sandbox:
    if name in NAMES:
        sandbox: Sandbox = NAMES[name](read_only=read_only)
        if name == Process.name:
            logger.warning("Commands run as plain processes (SANDBOX=process).")
        return sandbox
    module, _, attribute = name.rpartition(".")
    try:
        made: Sandbox = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, ValueError) as error:
        known = ", ".join(["auto", *NAMES])
        raise UnknownSandbox(
            f"SANDBOX is “{name}”: say {known} or the dotted path of a class ({error})."
        ) from error
    return made


@functools.cache
def best(read_only: tuple[str, ...]) -> Sandbox:
    sandbox = build(Bubblewrap.name, read_only)
    if reasons := sandbox.check():
        logger.warning(
            "Commands run as plain processes, not shut in: %s", " ".join(reasons)
        )
        return Process(read_only=read_only)
    return sandbox
