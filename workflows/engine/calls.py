"""A `call` step: the function, under the claim, on the pool that fits.

What is listed as quick runs where the run is. Anything else, and whatever has a limit
of its own, runs on the pool that may wait: the run is handed over there without its
attempt being spent, and comes back with its next step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from django.conf import settings

from threads import text
from threads.runtime import letters
from threads.runtime.sandbox import programs
from workflows import journal, phrases, plan, sending, templating
from workflows.calling import Calling
from workflows.engine import child, functions, lengthy, listed, rendering
from workflows.engine.apart import START_SECONDS, Apart
from workflows.engine.lengthy import TURNS
from workflows.engine.listed import CallFailed, Listed
from workflows.journal import Ended, Held, Line
from workflows.models import Run

ARGUMENT_SHOWN, ARGUMENTS_SHOWN, RESULT_SHOWN = 200, 1000, 2000  # characters


def begin(held: Held, step: plan.Call, see: templating.Scope) -> Ended | None:
    """Call the function under the claim; None where the run left this worker's hands."""
    args: dict[str, Any] = {
        name: templating.render_value(value, see.resolve)
        for name, value in step.args.items()
    }
    words = phrases.CALLING.format(function=step.function, args=in_words(args))
    try:
        what = listed.listed(step.function)
    except CallFailed as failed:
        return failure(step, words, failed, said=False)
    if in_place(step, what):
        if not journal.in_hand(held):
            raise sending.Fenced
        return outcome(step, words, lambda: call(held, step, what, args), said=False)
    if held.pool != TURNS:
        lengthy.give(held, TURNS)
        return None
    return at_length(held, step, what, args, words)


def in_place(step: plan.Call, what: Listed) -> bool:
    """Whether the call runs where the run is, and leaves nothing behind if it dies."""
    careful = step.if_interrupted != "again"
    return what.how == listed.QUICK and step.timeout is None and not careful


def at_length(
    held: Held, step: plan.Call, what: Listed, args: dict[str, Any], words: str
) -> Ended | None:
    """Call where others may wait."""
    under = calling_of(held, step)
    apart = Apart(
        held,
        under.key,
        timeout=step.timeout or 0.0,
        again=step.if_interrupted == "again",
        program=lambda folder, fault: program(
            Told(held, step, what, args, under), folder, fault
        ),
    )

    def act() -> Any:
        if step.timeout is None:
            return call(held, step, what, args)
        return opened(apart.call()[0])

    return lengthy.carry_out(
        held,
        step,
        words,
        apart,
        end=lambda: outcome(step, words, act, said=True),
        cut=lambda cut: failure(step, words, cut, said=True),
    )


@dataclass(frozen=True)
class Told:
    """What a call in a process of its own is told."""

    held: Held
    step: plan.Call
    what: Listed
    args: dict[str, Any]
    under: Calling


def program(told: Told, folder: Path, fault: int) -> programs.Program:
    """Return what runs one beginning of a call, its order written."""
    under = replace(told.under, attempt=told.under.attempt + fault)
    tries = told.held.step_tries
    letters.prepare(folder)
    order = {"what": asdict(told.what), "args": told.args, "under": asdict(under)}
    letters.write(folder / letters.ORDER, {**order, "tries": tries})
    return programs.Program(
        argv=("-m", child.__name__, str(folder.absolute())),
        cwd=settings.BASE_DIR,
        folder=folder,
        key=f"{under.key}:{tries}:{fault}",
        attempt=told.held.attempts,
        timeout=(told.step.timeout or 0.0) + START_SECONDS,
        grace=settings.CANCEL_SECONDS,
        memory=settings.CALL_MEMORY,
        max_output=settings.OUTPUT_LIMIT,
    )


def opened(answer: dict[str, Any]) -> Any:
    if "failed" in answer:
        raise CallFailed(answer["failed"], final=answer["final"])
    return answer["result"]


def needs_length(step: plan.Step | plan.Unknown) -> bool:
    """Whether a step is a call that runs where others may wait."""
    if not isinstance(step, plan.Call):
        return False
    try:
        return not in_place(step, listed.listed(step.function))
    except CallFailed:
        return False


def call(held: Held, step: plan.Call, what: Listed, args: dict[str, Any]) -> Any:
    return functions.call(what, args, calling_of(held, step), tries=held.step_tries)


def calling_of(held: Held, step: plan.Call) -> Calling:
    key = sending.step_key(held.id, held.position, held.iteration)
    return Calling(str(held.id), step.name, key, held.step_tries + crashes(held))


def crashes(held: Held) -> int:
    """Return how often workers have died at this step."""
    if held.attempts == 1:
        return 0
    found: int = Run.objects.values_list("crashes", flat=True).get(pk=held.id)
    return found


def outcome(
    step: plan.Call, words: str, act: Callable[[], Any], *, said: bool
) -> Ended:
    try:
        result = act()
    except CallFailed as failed:
        return failure(step, words, failed, said=said)
    lines = [] if said else [rendering.instructed(step.name, words)]
    if result is not None:
        shown = shortened(templating.as_text(result), RESULT_SHOWN)
        lines.append(
            Line(phrases.RETURNED.format(function=step.function, result=shown))
        )
    return Ended(
        step.name,
        step.kind,
        "completed",
        instruction=words,
        result={"result": result},
        lines=lines,
    )


def failure(step: plan.Call, words: str, failed: CallFailed, *, said: bool) -> Ended:
    lines = [] if said else [rendering.instructed(step.name, words)]
    return Ended(
        step.name,
        step.kind,
        "failed",
        instruction=words,
        error=str(failed),
        final=failed.final,
        lines=[*lines, Line(str(failed))],
    )


def in_words(args: dict[str, Any]) -> str:
    each = (
        f"{name}={shortened(templating.as_text(value), ARGUMENT_SHOWN)}"
        for name, value in args.items()
    )
    return shortened(", ".join(each), ARGUMENTS_SHOWN)


def shortened(words: str, limit: int) -> str:
    """Return what a thread shows of a value that may be a megabyte."""
    if len(words) <= limit:
        return text.clean(words)
    begin = text.clean(words[:limit]).rstrip()
    return phrases.SHORTENED.format(begin=begin, count=f"{len(words):,}")
