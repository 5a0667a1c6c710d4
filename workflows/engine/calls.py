"""A `call` step: the function, under the claim, on the pool that fits.

What is listed as quick runs where the run is. Anything else, and whatever has a limit
of its own, runs on the pool that may wait: the run is handed over there without its
attempt being spent, and comes back with its next step.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from threads import phrases as thread_phrases
from threads import points, post, text
from threads.locking import locked
from threads.models import Entry
from threads.runtime.insist import insist
from threads.runtime.sandbox.protocol import Stop
from workflows import journal, parking, phrases, plan, selectors, sending, templating
from workflows.calling import Calling
from workflows.engine import functions, listed, rendering
from workflows.engine.apart import Apart, Stopped
from workflows.engine.listed import CallFailed, Listed
from workflows.journal import Ended, Held, Line
from workflows.models import Checkpoint, Run

STEPS, TURNS = "steps", "turns"
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
        give(held, TURNS)
        return None
    return at_length(held, step, what, args, words)


def in_place(step: plan.Call, what: Listed) -> bool:
    """Whether the call runs where the run is, and leaves nothing behind if it dies."""
    careful = step.if_interrupted != "again"
    return what.how == listed.QUICK and step.timeout is None and not careful


def give(held: Held, pool: str) -> None:
    """Hand the run over to a pool's workers; its attempt goes on there."""
    given = Run.objects.filter(held.fence(), pk=held.id).update(
        state=Run.State.PENDING, holder=None, held_until=None, ready_at=Now(), pool=pool
    )
    if not given:
        raise sending.Fenced
    points.reached("call.given")
    post.post_ticket("workflows.advance", pool, held.id, queue=pool)


def give_back(held: Held) -> bool:
    """Hand a run back whose slice is spent, to the pool of its next step.

    False where only its end is left, which costs no more than the way would.
    """
    step = selectors.step_at(held.plan, held.position)
    if step is None:
        return False
    if held.pool == STEPS or needs_length(step):
        journal.release(held)
    else:
        give(held, STEPS)
    return True


def needs_length(step: plan.Step | plan.Unknown) -> bool:
    if not isinstance(step, plan.Call):
        return False
    try:
        return not in_place(step, listed.listed(step.function))
    except CallFailed:
        return False


def at_length(
    held: Held, step: plan.Call, what: Listed, args: dict[str, Any], words: str
) -> Ended | None:
    """Call where others may wait: the thread says so first, and the end is insisted on."""
    apart = Apart(
        held,
        what,
        args,
        under=calling_of(held, step),
        timeout=step.timeout or 0.0,
        again=step.if_interrupted == "again",
    )
    if held.step_state != Checkpoint.State.RUNNING:
        open_step(held, step, words)
    elif not apart.again and apart.answered() is None:
        cut = CallFailed(thread_phrases.INTERRUPTED, final=True)
        return failure(step, words, cut, said=True)
    points.reached("call.opened")
    before = session()
    act = apart.call if step.timeout else lambda: call(held, step, what, args)
    try:
        ended = outcome(step, words, act, said=True)
    except Stopped as stopped:
        let_go(held, stopped.why)
        return None
    points.reached("call.ended")
    insist(lambda: reconnect(before))
    return ended


def open_step(held: Held, step: plan.Call, words: str) -> None:
    """Say what is called and open the step while the fence holds: one transaction."""
    mine = Run.objects.filter(held.fence(), pk=held.id, cancel_asked_at=None)
    with locked(held.thread) as thread:
        lease = timedelta(seconds=settings.LEASE_SECONDS)
        if not mine.update(held_until=Now() + lease):
            raise sending.Fenced
        instruction = Entry.Kind.INSTRUCTION
        entry = thread.append(words, kind=instruction, data={"step": step.name})
        parking.open_step(
            held,
            name=step.name,
            kind=step.kind,
            state=Checkpoint.State.RUNNING,
            instruction=words,
            entry=entry,
        )


def let_go(held: Held, why: Stop) -> None:
    """Leave a run whose call was ended from outside: to another, or to its cancel."""
    if why is not Stop.DRAIN:
        raise sending.Fenced
    insist(lambda: journal.release(held))
    post.post_ticket("workflows.advance", held.pool, held.id, queue=held.pool)


def session() -> tuple[bool, bool]:
    return connection.in_atomic_block, connection.autocommit


def reconnect(before: tuple[bool, bool]) -> None:
    """Make sure that the database hears the end of a call that took long.

    The session may have died meanwhile, and the function have left it in disorder.
    """
    if session() != before:
        connection.close()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


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
