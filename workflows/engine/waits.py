"""Steps that wait for a time, an event or another run, and hold nothing meanwhile.

Whoever ends such a wait only makes the run ready; the claim then finds the step waiting,
looks at what it waited for and records how it ended. A claim that finds nothing parks
the run again.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction

from threads import phrases as thread_phrases
from threads.locking import locked
from workflows import (
    durations,
    events,
    moments,
    phrases,
    plan,
    sending,
    templating,
)
from workflows.engine import children, rendering
from workflows.exceptions import BadEvent, BadPayload
from workflows.journal import Ended, Held, Line
from workflows.models import Checkpoint, Run, RunThread
from workflows.parking import Park


def sleep(held: Held, step: plan.Sleep, see: templating.Scope) -> Ended | None:
    """Fall asleep, or record the sleep one has woken from."""
    if held.step_state == Checkpoint.State.SLEEPING:
        return Ended(step.name, step.kind, "completed", result=begun(held).result)
    seconds, words = rendering.sleep_time(step, see)
    if seconds > 0:
        sending.fall_asleep(held, step, seconds, words)
        return None
    now = moments.stamp(rendering.database_now())
    return Ended(
        step.name,
        step.kind,
        "completed",
        instruction=phrases.SLEEP_PAST,
        result={"until": now},
        lines=[rendering.instructed(step.name, phrases.SLEEP_PAST)],
    )


def begun(held: Held) -> Checkpoint:
    return Checkpoint.objects.get(
        run=held.id, position=held.position, iteration=held.iteration
    )


def wait_for_event(
    held: Held, step: plan.WaitForEvent, see: templating.Scope
) -> Ended | None:
    """Take the event that has come, or park until it comes or the time is up."""
    name = templating.render_text(step.event, see.resolve)
    key = templating.render_text(step.key, see.resolve) if step.key else ""
    try:
        events.checked_name(name)
    except BadEvent as error:
        return failed(held, step, f"event: {error}", final=True)
    words = phrases.WAITING_FOR_EVENT.format(event=f"{name} {key}".strip())
    left = seconds_left(held, step.timeout)
    with transaction.atomic():
        # Before any row, as whoever emits it.
        events.lock(held.house, name)
        found = events.found(house=held.house, run=held.id, name=name, key=key)
        if found is None and (left is None or left > 0):
            wait = Park(
                RunThread.Kind.EVENT, done_event(held), event=(name, key), seconds=left
            )
            sending.wait_outside(held, step, wait, words)
            return None
    if found is None:
        return timed_out(held, step, name)
    said = phrases.EVENT_CAME.format(event=name, payload=events.told(found["payload"]))
    return ended(held, step, result=found, words=words, said=said)


def timed_out(held: Held, step: plan.WaitForEvent, event: str) -> Ended:
    limit = thread_phrases.seconds(step.timeout or 0)
    reason = phrases.NO_EVENT.format(event=event, limit=limit)
    if step.on_timeout == "fail":
        return failed(held, step, reason)
    nothing = {"event": event, "payload": None}
    return ended(held, step, result=nothing, words="", said=reason + ".")


def run_workflow(
    held: Held, step: plan.RunWorkflow, see: templating.Scope
) -> Ended | None:
    """Start the step's run and park until it has ended, or record how it did."""
    payload = {
        name: templating.render_value(value, see.resolve)
        for name, value in step.payload.items()
    }
    key = sending.step_key(held.id, held.position, held.iteration)
    if held.step_tries > 1:
        key = f"{key}:try{held.step_tries}"  # a failed run is not started again
    try:
        child = children.start(held, slug=step.workflow, payload=payload, key=key)
    except (children.CannotStart, BadPayload) as error:
        return failed(held, step, str(error), final=True)
    words = phrases.RUNNING_WORKFLOW.format(workflow=step.workflow, run=child.pk)
    left = seconds_left(held, step.timeout)
    try:
        if (left is None or left > 0) and parked_on(held, step, child, left, words):
            return None
    except children.CannotStart as error:
        # Before the place it would have had comes free, and nobody reads its result.
        reason = phrases.IN_A_CIRCLE.format(run=held.id)
        children.cancel(child, parent=held.id, reason=reason)
        return failed(held, step, str(error), final=True)
    child.refresh_from_db()
    if child.state in Run.ACTIVE:
        return outlived(held, step, child)
    return run_ended(held, step, child, words)


def parked_on(
    held: Held, step: plan.RunWorkflow, child: Run, left: float | None, words: str
) -> bool:
    """Park until the run has ended; False where it has. Raises CannotStart."""
    wait = Park(RunThread.Kind.RUN, done_event(held), run=child.pk, seconds=left)
    # The thread before that run's row, as whoever ends this step by hand.
    with locked(held.thread):
        if not children.await_end(held, child.pk):
            return False
        sending.wait_outside(held, step, wait, words)
    return True


def outlived(held: Held, step: plan.RunWorkflow, child: Run) -> Ended:
    """Fail a step whose run takes too long, and cancel that run."""
    limit = thread_phrases.seconds(step.timeout or 0)
    reason = phrases.RUN_TOO_LONG.format(run=child.pk, limit=limit)
    children.cancel(child, parent=held.id, reason=reason)
    return failed(held, step, reason)


def run_ended(held: Held, step: plan.RunWorkflow, child: Run, words: str) -> Ended:
    result = children.result_of(child)
    said = phrases.RUN_ENDED[child.state].format(
        run=child.pk, **(child.failure or {"step": "", "reason": ""})
    )
    if child.state == Run.State.COMPLETED:
        return ended(held, step, result=result, words=words, said=said)
    return failed(held, step, said, result=result, words=words)


def seconds_left(held: Held, limit: float | None) -> float | None:
    """Return how long the wait may still last: all of it where it has not begun."""
    if limit is None or held.step_state != Checkpoint.State.WAITING:
        return limit
    until = (begun(held).result or {}).get("until")
    if until is None:
        return limit
    left: float = (
        durations.read_moment(until) - rendering.database_now()
    ).total_seconds()
    return left


def done_event(held: Held) -> str:
    return sending.done_event(held.id, held.position, held.iteration)


def ended(
    held: Held, step: plan.Step, *, result: dict[str, Any], words: str, said: str
) -> Ended:
    return Ended(
        step.name,
        step.kind,
        "completed",
        instruction=words,
        result=result,
        event=done_event(held),
        lines=[*began(held, step, words), Line(said)],
    )


def failed(
    held: Held,
    step: plan.Step,
    reason: str,
    *,
    words: str = "",
    result: dict[str, Any] | None = None,
    final: bool = False,
) -> Ended:
    return Ended(
        step.name,
        step.kind,
        "failed",
        instruction=words,
        result=result,
        error=reason,
        final=final,
        event=done_event(held),
        lines=[*began(held, step, words), Line(f"{step.name}: {reason}")],
    )


def began(held: Held, step: plan.Step, words: str) -> list[Line]:
    """Return the line that says what is waited for, where this try has none yet."""
    if held.step_state == Checkpoint.State.WAITING or not words:
        return []
    return [rendering.instructed(step.name, words)]
