"""The two crossings between runs and threads, and the one-run check.

*Send* puts a step into the thread and parks the run; *finish* is the way back, inside
the transaction that settles the turn or decides the gate, so that there is no gap
between "answered" and "moved".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import JSONField, Q, Value
from django.db.models.functions import Coalesce, Now

from threads import gates, points, post
from threads import phrases as thread_phrases
from threads import services as thread_services
from threads.locking import LockedThread, locked
from threads.models import Bot, Entry, Gate, Turn
from workflows import journal, moments, notify, outcomes, phrases, plan, selectors, why
from workflows.journal import Held, Park
from workflows.models import Checkpoint, Event, Run, RunThread


class Fenced(Exception):
    """The run is no longer in this worker's hands; everything it began is undone."""


def step_key(run: UUID, position: int, iteration: int) -> str:
    """Return the idempotency key of one execution of a step, stable over its tries."""
    again = f":{iteration}" if iteration > 1 else ""
    return f"{run}:{position}{again}"


def done_event(run: UUID, position: int, iteration: int) -> str:
    return f"wf.step.done:{step_key(run, position, iteration)}"


def send(
    held: Held, step: plan.RunCommand | plan.DispatchTask, ask: Mapping[str, Any]
) -> None:
    """Post the instruction, ask the bot for a turn and park the run: one transaction.

    Raises Fenced where the run was taken over; nothing is written then.
    """
    key = done_event(held.id, held.position, held.iteration)
    with locked(held.thread) as thread:
        entry = instruct(thread, step.name, ask["instruction"])
        bot = Bot.objects.select_related("house").get(pk=held.bot)
        command = isinstance(step, plan.RunCommand)
        turn, _ = thread_services.ask_for_turn(
            thread,
            bot=bot,
            ask=thread_services.Ask(
                what=Turn.What.COMMAND if command else Turn.What.PROMPT,
                instruction=ask["instruction"],
                key=step_key(held.id, held.position, held.iteration),
                subject=key,
                needs="command" if command else bot.runtime,
                root=ask["root"],
                spec=ask["spec"],
            ),
        )
        taken, _ = journal.park(held, Park("turn", key, turn=turn.pk))
        if not taken:
            raise Fenced
        journal.open_step(
            held,
            name=step.name,
            kind=step.kind,
            state=Checkpoint.State.WAITING,
            instruction=ask["instruction"],
            entry=entry,
        )
        points.reached("send.written")


def instruct(thread: LockedThread, step: str, words: str) -> int:
    return thread.append(words, kind=Entry.Kind.INSTRUCTION, data={"step": step})


def ask_people(held: Held, step: plan.HumanGate, prompt: str) -> None:
    """Post the question, open its gate and park the run: one transaction."""
    key = done_event(held.id, held.position, held.iteration)
    with locked(held.thread) as thread:
        entry = instruct(thread, step.name, prompt)
        gate = gates.open_gate(
            thread,
            gates.Question(
                subject=key,
                title=step.name,
                prompt=prompt,
                kind=step.answer,
                iteration=held.iteration,
                who=tuple(step.who),
                approvals=step.approvals,
                not_starter=step.not_starter,
                starter=held.started_by,
                choices=tuple(step.choices),
                deadline=step.deadline,
                on_deadline=step.on_deadline,
            ),
            number=entry,
        )
        taken, _ = journal.park(held, Park("gate", key, gate=gate.pk))
        if not taken:
            raise Fenced
        journal.open_step(
            held,
            name=step.name,
            kind=step.kind,
            state=Checkpoint.State.WAITING,
            instruction=prompt,
            entry=entry,
        )
        notify.waiting(held.id, prompt)
        points.reached("gate.written")


def fall_asleep(held: Held, step: plan.Step, seconds: float, words: str) -> None:
    """Say for how long, and park the run on its due time: one transaction."""
    key = done_event(held.id, held.position, held.iteration)
    with locked(held.thread) as thread:
        taken, until = journal.park(held, Park("time", key, seconds=seconds))
        if not taken or until is None:
            raise Fenced
        entry = instruct(thread, step.name, words)
        journal.open_step(
            held,
            name=step.name,
            kind=step.kind,
            state=Checkpoint.State.SLEEPING,
            instruction=words,
            entry=entry,
            result={"until": moments.stamp(until)},
        )
        points.reached("sleep.written")


def sleep_on_it(
    held: Held, step: plan.Step, ended: journal.Ended, delay: float
) -> None:
    """Put the due time of a step's next try on the row: one transaction."""
    key = done_event(held.id, held.position, held.iteration)
    with locked(held.thread) as thread:
        taken, _ = journal.park(held, Park("time", key, seconds=delay))
        if not taken:
            raise Fenced
        held.step_tries += 1
        for line in ended.lines:
            thread.append(line.body, kind=line.kind, data=line.data)
        again(thread, step, delay=delay, number=held.step_tries, reason=ended.error)
        journal.open_step(
            held,
            name=step.name,
            kind=step.kind,
            state=Checkpoint.State.SLEEPING,
            instruction=ended.instruction,
            error=ended.error,
        )


def again(
    thread: LockedThread, step: plan.Step, *, delay: float, number: int, reason: str
) -> None:
    limit = step.retries.limit + 1 if step.retries else 1
    thread.append(
        phrases.TRY_AGAIN.format(
            step=step.name,
            delay=thread_phrases.seconds(delay),
            number=number,
            limit=limit,
            reason=reason,
        )
    )


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
    return journal.settle(
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
