"""Parking a run: what is asked of a bot, of people, or of time, each one transaction."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from threads import phrases as thread_phrases
from threads import points, questions
from threads import services as thread_services
from threads.locking import LockedThread, locked
from threads.models import Bot, Entry, Turn
from workflows import journal, moments, notify, outcomes, parking, phrases, plan
from workflows.journal import Held
from workflows.models import Checkpoint
from workflows.parking import Park


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
        taken, _ = parking.park(held, Park("turn", key, turn=turn.pk))
        if not taken:
            raise Fenced
        parking.open_step(
            held,
            name=step.name,
            kind=step.kind,
            state=Checkpoint.State.WAITING,
            instruction=ask["instruction"],
            entry=entry,
        )
        points.written("send")


def instruct(thread: LockedThread, step: str, words: str) -> int:
    return thread.append(words, kind=Entry.Kind.INSTRUCTION, data={"step": step})


def ask_people(held: Held, step: plan.HumanGate, prompt: str) -> None:
    """Post the question, open its gate and park the run: one transaction."""
    key = done_event(held.id, held.position, held.iteration)
    with locked(held.thread) as thread:
        entry = instruct(thread, step.name, prompt)
        gate = questions.open_gate(
            thread,
            questions.Question(
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
        taken, _ = parking.park(held, Park("gate", key, gate=gate.pk))
        if not taken:
            raise Fenced
        parking.open_step(
            held,
            name=step.name,
            kind=step.kind,
            state=Checkpoint.State.WAITING,
            instruction=prompt,
            entry=entry,
        )
        notify.waiting(held.id, prompt)
        points.written("gate")


def fall_asleep(held: Held, step: plan.Step, seconds: float, words: str) -> None:
    """Say for how long, and park the run on its due time: one transaction."""
    key = done_event(held.id, held.position, held.iteration)
    with locked(held.thread) as thread:
        taken, until = parking.park(held, Park("time", key, seconds=seconds))
        if not taken or until is None:
            raise Fenced
        entry = instruct(thread, step.name, words)
        parking.open_step(
            held,
            name=step.name,
            kind=step.kind,
            state=Checkpoint.State.SLEEPING,
            instruction=words,
            entry=entry,
            result={"until": moments.stamp(until)},
        )
        points.written("sleep")


def delay_of(retries: plan.Retries | None, tries: int) -> float | None:
    """Return the seconds before the next try, its jitter drawn; None where none is."""
    jitter = random.uniform(0, retries.jitter) if retries else 0.0  # noqa: S311
    return outcomes.retry_delay(retries, tries, jitter=jitter)


def sleep_on_it(
    held: Held, step: plan.Step, ended: journal.Ended, delay: float
) -> None:
    """Put the due time of a step's next try on the row: one transaction."""
    key = done_event(held.id, held.position, held.iteration)
    with locked(held.thread) as thread:
        taken, _ = parking.park(held, Park("time", key, seconds=delay))
        if not taken:
            raise Fenced
        held.step_tries += 1
        for line in ended.lines:
            thread.append(line.body, kind=line.kind, data=line.data)
        again(thread, step, delay=delay, number=held.step_tries, reason=ended.error)
        parking.open_step(
            held,
            name=step.name,
            kind=step.kind,
            state=Checkpoint.State.SLEEPING,
            instruction=ended.instruction,
            error=ended.error,
        )
        points.written("again")


def rest(held: Held, ended: journal.Ended, delay: float) -> None:
    """Record an iteration and put the due time of the next on the row, in one.

    A run that is asked to cancel does not park; its holder sees that in what it holds.
    """
    with locked(held.thread):
        if not journal.record(held, ended):
            raise Fenced
        key = done_event(held.id, held.position, held.iteration)
        parking.park(held, Park("time", key, seconds=delay))
        points.written("rest")


def wait_outside(
    held: Held, step: plan.WaitForEvent | plan.RunWorkflow, wait: Park, words: str
) -> None:
    """Say what the run waits for, and park it: part of the caller's transaction.

    Where it waits already and was woken for nothing, it parks again without a word.
    """
    with locked(held.thread) as thread:
        taken, until = parking.park(held, wait)
        if not taken:
            raise Fenced
        if held.step_state == Checkpoint.State.WAITING:
            return
        entry = instruct(thread, step.name, words)
        parking.open_step(
            held,
            name=step.name,
            kind=step.kind,
            state=Checkpoint.State.WAITING,
            instruction=words,
            entry=entry,
            result={"until": moments.stamp(until)} if until else None,
        )
        points.written("wait")


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
