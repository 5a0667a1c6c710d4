"""Step after step until the run waits, ends or has had its slice."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from django.db.models import Q

from threads import hands, points, post
from threads.locking import locked
from threads.runtime.insist import insist
from threads.runtime.watch import draining
from workflows import (
    journal,
    outcomes,
    phrases,
    plan,
    selectors,
    sending,
    settling,
    templating,
)
from workflows.engine import (
    calls,
    claims,
    lengthy,
    queries,
    rendering,
    rooms,
    waits,
)
from workflows.journal import Ended, Held, Line
from workflows.models import Checkpoint, Run

logger = logging.getLogger(__name__)


def advance(*, pool: str, holder: int, hint: UUID | None = None) -> int:
    """Carry runs on until none is ready or the slice is spent; return how many."""
    points.reached("advance.called")
    end = time.monotonic() + settings.SLICE_SECONDS
    carried = 0
    while not draining.is_set():
        held = claims.claim(pool=pool, holder=holder, hint=hint)
        if held is None:
            break
        points.reached("advance.claimed")
        carried, hint = carried + 1, None
        with hands.hold(held.id):
            carry_safely(held, end=end)
        if time.monotonic() >= end:
            # Others have their turn: one ticket goes on for the one that was spent.
            post.post_ticket("workflows.advance", pool, held.id, queue=pool)
            break
    return carried


def carry_safely(held: Held, *, end: float) -> None:
    """Carry a run on; hand it back where the database went away, and count a crash.

    A fault nobody foresaw counts as a crash of this worker, so that it is bounded.
    """
    try:
        carry(held, end=end)
    except (OperationalError, InterfaceError) as error:
        logger.warning("Run %s is handed back: %s", held.id, error)
        connection.close()
        insist(lambda: journal.release(held))
        post.post_ticket("workflows.advance", held.pool, held.id, queue=held.pool)
    except Exception:
        logger.exception("Run %s could not be carried on", held.id)
        insist(lambda: settling.give_up(held))


def carry(held: Held, *, end: float) -> None:
    """Take one run from step to step; stop where it parks, settles or is fenced."""
    past = before(held)
    try:
        while step := next_step(held, past):
            if not take(held, step, past):
                return
            points.reached("advance.recorded")
            if time.monotonic() >= end and give_back(held):
                return
    except sending.Fenced:
        # Taken over, or asked to cancel in the moment it would have parked.
        logger.info("Run %s could not go on; nothing was written", held.id)
        settle_cancelled(held)
    except plan.Refused as error:
        refuse(held, str(error))


def give_back(held: Held) -> bool:
    """Hand a run back whose slice is spent, to the pool of its next step.

    False where only its end is left, which costs no more than the way would.
    """
    step = selectors.step_at(held.plan, held.position)
    if step is None:
        return False
    lengthily = isinstance(step, plan.Query) or calls.needs_length(step)
    if held.pool == lengthy.STEPS or lengthily:
        journal.release(held)
    else:
        lengthy.give(held, lengthy.STEPS)
    return True


def next_step(held: Held, past: list[outcomes.Past]) -> plan.Step | plan.Unknown | None:
    """Return the step to take now; None where the run has been settled or let go."""
    if held.cancel_asked:
        settle_cancelled(held)
        return None
    step = selectors.step_at(held.plan, held.position)
    if step is None:
        settle(held, past)
    elif held.paused:
        journal.release(held)
        return None
    return step


def before(held: Held) -> list[outcomes.Past]:
    """Return the steps behind the run; one that repeats is not behind it yet."""
    if not held.position:
        return []
    return selectors.past_steps(held.id, held.plan, before=held.position)


def take(held: Held, step: plan.Step | plan.Unknown, past: list[outcomes.Past]) -> bool:
    """Run the step at the position; True where the run goes on in place."""
    if isinstance(step, plan.Unknown):
        defer(held, step)
        return False
    finished = held.step_state in Checkpoint.ENDED
    if finished:
        raise sending.Fenced  # recorded, yet not moved: never run it again
    if held.step_state is None and not outcomes.should_run(step.when, past):
        return done(held, step, past, skipped(step, past))
    try:
        ended = begin(held, step)
    except (templating.Unresolved, rendering.BadSleep) as error:
        ended = not_sent(step, str(error))
    if ended is None:
        points.reached("advance.parked")
        return False
    return done(held, step, past, ended)


def begin(held: Held, step: plan.Step) -> Ended | None:
    """Begin a step by its kind; None where the run is parked on it now.

    Raises Unresolved or BadSleep before anything has run.
    """
    see = rendering.scope(held, step)
    match step:
        case plan.RunCommand() | plan.DispatchTask():
            sending.send(held, step, rendering.ask(held, step, see))
        case plan.HumanGate():
            prompt = templating.render_text(step.prompt, see.resolve)
            sending.ask_people(held, step, prompt)
        case plan.Sleep():
            return waits.sleep(held, step, see)
        case plan.WaitForEvent():
            return waits.wait_for_event(held, step, see)
        case plan.RunWorkflow():
            return waits.run_workflow(held, step, see)
        case plan.Call() | plan.Query() | plan.OpenThread():
            return act(held, step, see)
    return None


def act(
    held: Held, step: plan.Call | plan.Query | plan.OpenThread, see: templating.Scope
) -> Ended | None:
    """Do under the claim what a step asks for."""
    match step:
        case plan.Call():
            return calls.begin(held, step, see)
        case plan.Query():
            return queries.begin(held, step, see)
        case plan.OpenThread():
            return rooms.open_room(held, step, see)


def skipped(step: plan.Step, past: list[outcomes.Past]) -> Ended:
    why = phrases.SKIP_WHY[step.when]
    words = phrases.SKIPPED.format(step=step.name, why=why)
    return Ended(step.name, step.kind, "skipped", error=why, lines=[Line(words)])


def not_sent(step: plan.Step, reason: str) -> Ended:
    words = phrases.NOT_SENT.format(step=step.name, reason=reason)
    return Ended(
        step.name, step.kind, "failed", error=reason, final=True, lines=[Line(words)]
    )


def done(held: Held, step: plan.Step, past: list[outcomes.Past], ended: Ended) -> bool:
    """Record how the step ended, or the due time of its next try or iteration."""
    failed = ended.state == "failed"
    if failed and not ended.final and try_again(held, step, ended):
        return False
    points.reached("advance.ended")
    repeat = plan.repeat_of(step)
    if not ended.final and outcomes.repeats(repeat, held.iteration, ended.state):
        return repeat_it(
            held, replace(ended, again=True), repeat.delay if repeat else 0
        )
    state, reason = ended.state, ended.error
    if repeat is not None and held.iteration > 1:
        before = selectors.iterations(held.id, held.position)
        state, reason = outcomes.repeated(repeat, [*before, (state, reason)])
    stops = state == "failed" and step.on_error == "stop"
    if not journal.record(held, replace(ended, stops=stops, reason=reason)):
        raise sending.Fenced
    past.append(
        outcomes.Past(step.name, state, step.on_error, reason=reason)  # type: ignore[arg-type]
    )
    return True


def repeat_it(held: Held, ended: Ended, delay: float) -> bool:
    """Record an iteration; True where the next begins in place."""
    if delay > 0:
        sending.rest(held, ended, delay)
        return held.cancel_asked  # it did not park then
    if not journal.record(held, ended):
        raise sending.Fenced
    return True


def try_again(held: Held, step: plan.Step, ended: Ended) -> bool:
    """Put the next try of a step on the row; False where none is left or wanted."""
    delay = sending.delay_of(step.retries, held.step_tries)
    if delay is None or isinstance(step, plan.HumanGate):
        return False
    try:
        sending.sleep_on_it(held, step, ended, delay)
    except sending.Fenced:
        return False  # asked to cancel meanwhile: what happened is recorded
    return True


def settle(held: Held, past: list[outcomes.Past]) -> None:
    """End a run that has all its steps behind it."""
    points.reached("advance.settling")
    result = outcomes.run_result(past)
    failure = None
    words = phrases.COMPLETED
    if result.result == "failed":
        failure = held.failure or {"step": result.step, "reason": result.reason}
        words = phrases.FAILED.format(**failure)
    elif settling.complete(held, words):
        points.reached("advance.settled")
        return
    with locked(held.thread) as thread:
        run = Run.objects.select_related("workflow", "workflow__house").get(pk=held.id)
        if run.cancel_asked_at is not None:
            settling.stop(thread, run, guard=held.fence())
        elif failure:
            settling.fail(thread, run, failure, guard=held.fence())
        else:
            completed = Run.State.COMPLETED
            settling.settle(
                thread, run, state=completed, guard=held.fence(), words=words
            )
    points.reached("advance.settled")


def settle_cancelled(held: Held) -> None:
    asked = held.fence() & Q(cancel_asked_at__isnull=False)
    with locked(held.thread) as thread:
        run = Run.objects.select_related("workflow", "workflow__house").get(pk=held.id)
        settling.stop(thread, run, guard=asked)


def refuse(held: Held, reason: str) -> None:
    """Fail a run whose stored step cannot be read; a crash would only come back."""
    stored = selectors.plan_steps(held.plan)[held.position]
    failure = {"step": str(stored.get("name", held.position)), "reason": reason}
    with locked(held.thread) as thread:
        run = Run.objects.select_related("workflow", "workflow__house").get(pk=held.id)
        settling.fail(thread, run, failure, guard=held.fence())


def defer(held: Held, step: plan.Unknown) -> None:
    """Leave the run to a worker that knows the kind; no attempt is spent (A44)."""
    reason = phrases.UNKNOWN_KIND.format(kind=step.kind)
    journal.release(held, needs=step.kind, reason=reason)
