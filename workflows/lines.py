"""A run in one line, as lists show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import F, Q

from threads.models import Gate
from workflows import selectors
from workflows.models import Checkpoint, Run, RunThread
from workflows.moments import plain, stamp, stamp_or_none

LINES = {
    "ready": "ready to go on",
    "held": "paused by {who}",
    "paused": "not started: the workflow is paused",
    "seat": "not started: it waits for another run to end",
    "deferred": "waiting for a worker that can run it: {reason}",
    "running": "at work on “{step}”",
    "stopping": "stopping",
    "time": "asleep until {until}",
    "retrying": "“{step}” failed; it is tried again at {until}",
    "gate": "waiting for {who} to answer “{title}”",
    "turn": "waiting for {bot} to finish “{step}”",
    "ask": "waiting for anyone to say whether “{step}” runs again",
    "event": "waiting for the event {event}",
    "run": "waiting for run {run} to end",
    "between": "“{step}” runs again at {until}",
    "cancelled": "cancelled by {who}",
}


def head(run: Run) -> dict[str, Any]:
    return {
        "id": str(run.pk),
        "short": short(run.pk),
        "workflow": run.workflow.slug,
        "house": run.house.slug,
        "state": run.state,
        "trigger": run.trigger,
        "key": run.key,
        "created_at": stamp(run.created_at),
        "started_at": stamp_or_none(run.started_at),
        "finished_at": stamp_or_none(run.finished_at),
        "due_at": stamp_or_none(run.due_at),
        "failure": run.failure,
        "retry_of": str(run.retry_of_id) if run.retry_of_id else None,
    }


def short(run_id: UUID) -> str:
    return run_id.hex[-8:]


@dataclass(frozen=True)
class Around:
    """What the lines of a list need besides their rows, read once for all of them."""

    waits: Mapping[UUID, RunThread] = field(default_factory=dict)
    steps: Mapping[UUID, Checkpoint] = field(default_factory=dict)


def run_line(run: Run, around: Around | None = None) -> dict[str, Any]:
    """Return one run as lists show it, with a reason of one line."""
    around = around or look_around([run])
    return {**head(run), "reason": reason(run, around)}


def look_around(runs: Iterable[Run]) -> Around:
    active = [run.pk for run in runs if run.state in Run.ACTIVE]
    if not active:
        return Around()
    waits = RunThread.objects.filter(run__in=active, awaiting=True)
    here = Q(position=F("run__position"), iteration=F("run__iteration"))
    begun = Checkpoint.objects.filter(here, run__in=active)
    return Around(
        {
            w.pk: w
            for w in waits.select_related("await_gate", "await_turn", "worker_bot")
        },
        {step.run_id: step for step in begun},
    )


def reason(run: Run, around: Around) -> str:
    """Say in one line why the run is where it is; nothing where it completed."""
    step = around.steps.get(run.pk)
    match run.state:
        case Run.State.FAILED if run.failure:
            failed = (run.failure["step"], run.failure["reason"])
            return ": ".join(words for words in failed if words)
        case Run.State.CANCELLED:
            who, _, because = run.cancel_words.partition("\n")
            words = LINES["cancelled"].format(who=who or "System")
            return f"{words}: {because}" if because else words
        case Run.State.COMPLETED:
            return ""
        case _ if run.cancel_asked_at is not None:
            return LINES["stopping"]
        case _:
            return active_reason(run, around.waits.get(run.pk), step)


def active_reason(run: Run, wait: RunThread | None, step: Checkpoint | None) -> str:
    words = parked_reason(run, wait, step)
    if run.state == Run.State.PENDING:
        words = pending_reason(run) if run.paused_at is None else ""
    elif run.state == Run.State.RUNNING:
        words = LINES["running"].format(step=step.name) if step else ""
    return ", ".join(part for part in (words, held_reason(run)) if part)


def held_reason(run: Run) -> str:
    """Say who has paused a run and why; nothing where nobody has."""
    if run.paused_at is None:
        return ""
    who, _, because = run.paused_words.partition("\n")
    words = LINES["held"].format(who=who or "System")
    return f"{words}: {because}" if because else words


def pending_reason(run: Run) -> str:
    if run.ready_at is None:
        return LINES["seat" if run.deferred == Run.NO_SEAT else "paused"]
    key = "deferred" if run.deferred else "ready"
    return LINES[key].format(reason=run.deferred)


def parked_reason(run: Run, wait: RunThread | None, step: Checkpoint | None) -> str:
    name = step.name if step else ""
    if wait is None:
        until = plain(run.due_at) if run.due_at else ""
        named = selectors.plan_steps(run.plan_id)[run.position : run.position + 1]
        step_name = named[0]["name"] if named else ""
        return LINES["between"].format(step=step_name, until=until) if until else ""
    match wait.await_kind:
        case RunThread.Kind.TIME:
            key = "retrying" if step is not None and step.error else "time"
            until = plain(run.due_at) if run.due_at else ""
            return LINES[key].format(step=name, until=until)
        case RunThread.Kind.GATE if wait.await_gate is not None:
            return gate_reason(wait.await_gate)
        case _ if wait.await_turn is not None and wait.await_turn.state == "waiting":
            return LINES["ask"].format(step=name)
        case kind:
            return LINES[kind].format(
                bot=wait.worker_bot.name,
                step=name,
                event=wait.event_name,
                run=short(wait.await_run) if wait.await_run else "",
            )


def gate_reason(gate: Gate) -> str:
    who = ", ".join(gate.who) or "anyone"
    return LINES["gate"].format(who=who, title=gate.title)
