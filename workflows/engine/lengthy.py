"""A step at work where others may wait: handed over there, opened, and ended with care.

Its run is handed over without its attempt being spent, and comes back with its next step.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from threads import phrases as thread_phrases
from threads import points, post
from threads.locking import locked
from threads.models import Entry
from threads.runtime.insist import insist
from threads.runtime.sandbox.protocol import Stop
from workflows import journal, parking, plan, sending
from workflows.engine.apart import Apart, Stopped
from workflows.engine.listed import CallFailed
from workflows.journal import Ended, Held
from workflows.models import Checkpoint, Run

STEPS, TURNS = "steps", "turns"


def give(held: Held, pool: str) -> None:
    """Hand the run over to a pool's workers; its attempt goes on there."""
    given = Run.objects.filter(held.fence(), pk=held.id).update(
        state=Run.State.PENDING, holder=None, held_until=None, ready_at=Now(), pool=pool
    )
    if not given:
        raise sending.Fenced
    points.reached("call.given")
    post.post_ticket("workflows.advance", pool, held.id, queue=pool)


def carry_out(
    held: Held,
    step: plan.Call | plan.Query,
    words: str,
    apart: Apart,
    *,
    end: Callable[[], Ended],
    cut: Callable[[CallFailed], Ended],
) -> Ended | None:
    """Do the step: the thread says so first, and its end is insisted on.

    None where the run left this worker's hands. `cut` says how one ends that was begun,
    whose end nobody knows, and that must not begin again.
    """
    if held.step_state != Checkpoint.State.RUNNING:
        open_step(held, step, words)
    elif not apart.again and apart.answered() is None:
        return cut(CallFailed(thread_phrases.INTERRUPTED, final=True))
    points.reached("call.opened")
    if not journal.in_hand(held):
        raise sending.Fenced  # it stood still, and another has gone on meanwhile
    before = session()
    try:
        ended = end()
    except Stopped as stopped:
        let_go(held, stopped.why)
        return None
    points.reached("call.ended")
    insist(lambda: reconnect(before))
    return ended


def open_step(held: Held, step: plan.Call | plan.Query, words: str) -> None:
    """Say what is done and open the step while the fence holds: one transaction."""
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
    """Leave a run whose step was ended from outside: to another, or to its cancel."""
    if why is not Stop.DRAIN:
        raise sending.Fenced
    insist(lambda: journal.release(held))
    post.post_ticket("workflows.advance", held.pool, held.id, queue=held.pool)


def session() -> tuple[bool, bool]:
    return connection.in_atomic_block, connection.autocommit


def reconnect(before: tuple[bool, bool]) -> None:
    """Make sure that the database hears the end of what took long.

    The session may have died meanwhile, and a function have left it in disorder.
    """
    if session() != before:
        connection.close()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
