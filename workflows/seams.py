"""The two crossings between runs and threads, and the one-run check.

*Send* puts a step into the thread and parks the run; *finish* is the way back, inside
the transaction that settles the turn or decides the gate, so that there is no gap
between "answered" and "moved".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import JSONField, Q, Value
from django.db.models.functions import Coalesce, Now

from threads import points, post
from threads.locking import LockedThread
from threads.models import Gate, Turn
from workflows import journal, outcomes, phrases, plan, selectors, settling, why
from workflows.journal import Park
from workflows.models import Checkpoint, Event, Run, RunThread
from workflows.sending import (
    Fenced,
    again,
    ask_people,
    done_event,
    fall_asleep,
    send,
    sleep_on_it,
    step_key,
)

__all__ = [
    "Fenced",
    "ask_people",
    "done_event",
    "fall_asleep",
    "finish",
    "send",
    "sleep_on_it",
    "step_key",
]


@dataclass(frozen=True)
class Back:
    """What comes back over the seam: how the step ended and what it leaves."""

    state: str
    reason: str = ""
    result: Mapping[str, Any] | None = None
    root: str = ""
    final: bool = field(default=False)  # not to be tried again


def turn_settled(*, turn: Turn, thread: LockedThread, **kwargs: Any) -> None:
    """Finish the step that waits for this very turn, whichever thread it was in."""
    wait = RunThread.objects.filter(
        thread=thread.id, awaiting=True, await_turn=turn.pk
    ).first()
    if wait is None:
        return
    state = Checkpoint.State.FAILED
    if turn.state == Turn.State.SUCCEEDED:
        state = Checkpoint.State.COMPLETED
    stopped = turn.state == Turn.State.CANCELLED
    back = Back(state, turn.reason, turn.result, root=turn.root, final=stopped)
    finish(thread, wait, back)


def gate_decided(*, gate: Gate, thread: LockedThread, **kwargs: Any) -> None:
    """Finish the step that waits for this very gate."""
    wait = RunThread.objects.filter(
        thread=thread.id, awaiting=True, await_gate=gate.pk
    ).first()
    if wait is None:
        return
    result = {
        "approved": gate.outcome
        not in {Gate.Outcome.REJECTED, Gate.Outcome.EXPIRED, Gate.Outcome.SKIPPED},
        "reply": gate.reply,
        "by": gate.closed_by,
        "form": gate.answer,
    }
    match gate.outcome:
        case Gate.Outcome.REJECTED:
            reason = phrases.REJECTED.format(name=gate.closed_by)
            back = Back(Checkpoint.State.FAILED, reason, result, final=True)
        case Gate.Outcome.EXPIRED:
            back = Back(Checkpoint.State.FAILED, phrases.EXPIRED, result, final=True)
        case Gate.Outcome.SKIPPED:
            back = Back(Checkpoint.State.SKIPPED, phrases.EXPIRED)
        case _:
            back = Back(Checkpoint.State.COMPLETED, "", result)
    finish(thread, wait, back)


def finish(thread: LockedThread, wait: RunThread, back: Back) -> bool:
    """Emit the step's event, clear the wait, record the step and let the run go on.

    Inside the writer's locked thread. A late or repeated finisher finds the key gone
    and changes nothing.
    """
    if not journal.unpark(wait.run_id, key=wait.await_key):
        return False
    run = Run.objects.get(pk=wait.run_id)
    step = selectors.step_at(run.plan_id, run.position)
    tries = run.cancel_asked_at is None and not back.final
    if back.state == Checkpoint.State.FAILED and tries and try_again(thread, run, back):
        return True
    emit_once(run, wait.await_key, back)
    failed = back.state == Checkpoint.State.FAILED
    stops = failed and getattr(step, "on_error", "stop") == "stop"
    name = step.name if step else ""
    failure = {"step": name, "reason": back.reason} if stops else None
    moved = Run.objects.filter(
        pk=run.pk, state=Run.State.WAITING, position=run.position
    ).update(
        state=Run.State.PENDING,
        position=run.position + 1,
        iteration=1,
        crashes=0,
        ready_at=Now(),
        due_at=None,
        needs="",
        root=back.root or run.root,
        **(
            {"failure": Coalesce("failure", Value(failure, JSONField()))}
            if failure
            else {}
        ),
    )
    if not moved:
        return False
    close_step(run, back)
    points.reached("finish.written")
    if run.cancel_asked_at is not None:
        run.refresh_from_db()
        cancel_settled(thread, run, guard=Q(state=Run.State.PENDING))
    else:
        post.post_ticket("workflows.advance", run.pool, run.pk, queue=run.pool)
    return True


def emit_once(run: Run, name: str, back: Back) -> None:
    """First write wins: a later completion of the same step changes nothing (A20)."""
    Event.objects.bulk_create(
        [
            Event(
                house_id=run.house_id,
                name=name,
                key=str(run.pk),
                payload={"state": back.state, "reason": back.reason},
            )
        ],
        ignore_conflicts=True,
    )


def close_step(run: Run, back: Back) -> None:
    state = back.state
    if run.cancel_asked_at is not None and back.final and state == "failed":
        state = Checkpoint.State.CANCELLED
    Checkpoint.objects.filter(
        run=run, position=run.position, iteration=run.iteration
    ).update(state=state, result=back.result, error=back.reason, finished_at=Now())


def try_again(thread: LockedThread, run: Run, back: Back) -> bool:
    """Put the next try's due time on the row; False where no try is left."""
    step = selectors.step_at(run.plan_id, run.position)
    row = Checkpoint.objects.filter(
        run=run, position=run.position, iteration=run.iteration
    ).first()
    retries = getattr(step, "retries", None)
    delay = outcomes.retry_delay(retries, row.tries) if row else None
    if row is None or delay is None or step is None or isinstance(step, plan.Unknown):
        return False
    key = done_event(run.pk, run.position, run.iteration)
    wait = Park("time", key, seconds=delay)
    taken, _ = journal.parked(run.pk, wait, states=[Run.State.WAITING.value])
    if not taken:
        return False
    Checkpoint.objects.filter(pk=row.pk).update(
        state=Checkpoint.State.SLEEPING, tries=row.tries + 1, error=back.reason
    )
    again(thread, step, delay=delay, number=row.tries + 1, reason=back.reason)
    return True


def cancel_settled(thread: LockedThread, run: Run, *, guard: Q) -> bool:
    who, _, reason = run.cancel_words.partition("\n")
    words = (
        phrases.CANCELLED_BECAUSE.format(who=who, reason=reason)
        if reason
        else phrases.CANCELLED.format(who=who or "System")
    )
    return settling.settle(
        thread, run, state=Run.State.CANCELLED, guard=guard, words=words
    )


def entry_appended(
    *, thread: LockedThread, said: str, steered: str, **kwargs: Any
) -> None:
    """Answer a person who speaks in a run's thread where no gate takes the words."""
    wait = (
        RunThread.objects.select_related("run", "worker_bot")
        .filter(thread=thread.id)
        .first()
    )
    if wait is None:
        return
    if steered == Turn.What.PROMPT:
        thread.append(phrases.STEERED.format(bot=wait.worker_bot.name))
        return
    words = phrases.HEARD
    if wait.run.state in Run.SETTLED:
        words = phrases.ENDED
    thread.append(words.format(why=why.in_words(wait.run)))
