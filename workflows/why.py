"""Why a run is where it is, in words from the rows (C6)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from threads.models import Gate, Turn
from workflows import phrases, selectors, standing, workers
from workflows.models import Attempt, Checkpoint, Run, RunThread, Seat
from workflows.moments import plain, stamp, stamp_or_none

PATIENCE = timedelta(seconds=2)  # after that, ready work counts as unclaimed


def now() -> Any:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        return cursor.fetchone()[0]


def in_words(run: Run) -> str:
    """Say in one or two sentences why the run is where it is."""
    match run.state:
        case Run.State.PENDING:
            return pending_words(run)
        case Run.State.RUNNING:
            return f"{running_words(run)} {standing.paused(run)}".rstrip()
        case Run.State.SLEEPING | Run.State.WAITING:
            waits = waiting_for(run)
            return waits["words"] if waits else ""
        case _:
            return settled_words(run)


def pending_words(run: Run) -> str:
    if run.paused_at is not None:
        return standing.paused(run)
    if run.deferred == Run.NO_SEAT:
        return phrases.WHY["no_seat"].format(run=sitting(run))
    if run.ready_at is None:
        because = run.workflow.paused_reason
        reason = f": {because}" if because else ""
        return phrases.WHY["paused"].format(reason=reason)
    if run.deferred:
        return phrases.WHY["deferred"].format(reason=run.deferred)
    late = now() - run.ready_at > PATIENCE
    return phrases.WHY["unclaimed" if late else "ready"].format(
        since=plain(run.ready_at),
        reason=workers.nobody_takes(run) if late else "",
    )


def sitting(run: Run) -> str:
    """Name the runs that have the places this one waits for."""
    seats = Seat.objects.filter(name=f"workflow:{run.workflow_id}")
    rows = seats.order_by("number").values_list("run", "run__state")
    return ", ".join(f"{pk} ({state})" for pk, state in rows)


def running_words(run: Run) -> str:
    if run.cancel_asked_at is not None:
        return standing.stopping(run)
    return phrases.WHY["running"].format(
        step=step_name(run),
        since=plain(begun_at(run)),
        holder=workers.holding(run.holder, run.held_until, now=now()),
    )


def begun_at(run: Run) -> datetime:
    """Return since when a run in hand is at its step: its own start, or its attempt's."""
    here = {"position": run.position, "iteration": run.iteration}
    began = Checkpoint.objects.filter(run=run, **here).values_list("started_at")
    attempt = Attempt.objects.filter(run=run, ended_at=None).values_list("began_at")
    found = began.first() or attempt.first()
    return found[0] if found else run.started_at or run.created_at


def settled_words(run: Run) -> str:
    failure = run.failure or {"step": "", "reason": ""}
    at = plain(run.finished_at) if run.finished_at else ""
    who = run.cancel_words.partition("\n")[0] or "System"
    return phrases.WHY[run.state].format(at=at, who=who, **failure)


def step_name(run: Run) -> str:
    step = selectors.step_at(run.plan_id, run.position)
    return f"“{step.name}”" if step else "the end"


def waiting_for(run: Run) -> dict[str, Any] | None:
    """Return kind, words, since and until of what a run is parked on, or None."""
    match run.state:
        case Run.State.PENDING:
            return held_back(run)
        case Run.State.SLEEPING | Run.State.WAITING:
            found = parked_on(run)
            words = f"{found['words']} {standing.paused(run)}".rstrip()
            return {**found, "words": words}
        case _:
            return None


def held_back(run: Run) -> dict[str, Any] | None:
    """Return what a pending run waits for; None where it is ready for any worker."""
    words = pending_words(run)
    if run.paused_at is not None:
        return waits("paused", words, run.paused_at)
    if run.deferred == Run.NO_SEAT:
        return waits("seat", words, run.created_at)
    if run.ready_at is None:
        return waits("paused", words, run.created_at)
    if run.deferred or now() - run.ready_at > PATIENCE:
        return waits("worker", words, run.ready_at)
    return None


def parked_on(run: Run) -> dict[str, Any]:
    wait = RunThread.objects.select_related("worker_bot", "await_gate", "await_turn")
    found = wait.filter(run=run, awaiting=True).first()
    if run.cancel_asked_at is not None:
        return waits("cancel", standing.stopping(run), run.cancel_asked_at)
    if found is None:  # a turn ended its last iteration
        return waits("time", standing.between(run), run.created_at, run.due_at)
    since = found.await_started_at or run.created_at
    match found.await_kind:
        case RunThread.Kind.TIME:
            return waits("time", sleeping_words(run), since, run.due_at)
        case RunThread.Kind.GATE if found.await_gate is not None:
            gate = found.await_gate
            return waits("gate", gate_words(gate), since, gate.due_at)
        case RunThread.Kind.EVENT:
            return waits("event", standing.for_event(run, found), since, run.due_at)
        case RunThread.Kind.RUN:
            return waits("run", standing.for_run(run, found), since, run.due_at)
        case _ if found.await_turn is not None and found.await_turn.state == "waiting":
            asked = Gate.objects.filter(turn=found.await_turn, state="open").first()
            words = gate_words(asked) if asked else turn_words(run, found)
            return waits("gate", words, since)
        case _:
            words = standing.by_hand(run) or turn_words(run, found)
            return waits("turn", words, since)


def waits(kind: str, words: str, since: Any, until: Any = None) -> dict[str, Any]:
    return {
        "kind": kind,
        "words": words,
        "since": stamp(since),
        "until": stamp_or_none(until),
    }


def sleeping_words(run: Run) -> str:
    assert run.due_at is not None  # noqa: S101  a constraint: asleep means due
    step = Checkpoint.objects.filter(
        run=run, position=run.position, iteration=run.iteration
    ).first()
    if step is None and run.iteration > 1:
        return standing.between(run)
    retrying = step is not None and bool(step.error)
    words = phrases.WHY["retrying" if retrying else "sleeping"].format(
        step=step_name(run), until=plain(run.due_at)
    )
    return overslept(run, words)


def overslept(run: Run, words: str) -> str:
    """Add why nobody has woken a run whose time has passed."""
    assert run.due_at is not None  # noqa: S101  a constraint: asleep means due
    nobody = now() - run.due_at > PATIENCE and workers.no_conductor(run.namespace)
    return (
        phrases.WHY["overslept"].format(words=words, reason=nobody) if nobody else words
    )


def gate_words(gate: Gate) -> str:
    until = phrases.UNTIL.format(until=plain(gate.due_at)) if gate.due_at else ""
    return phrases.WHY["gate"].format(
        who=", ".join(gate.who) or phrases.ANYONE,
        title=gate.title,
        since=plain(gate.created_at),
        until=until,
    )


def turn_words(run: Run, wait: RunThread) -> str:
    turn = wait.await_turn
    if turn is None:
        return ""
    at = now()
    facts = {"bot": wait.worker_bot.name, "step": step_name(run)}
    if turn.state != Turn.State.PENDING:
        facts["holder"] = workers.holding(turn.holder, turn.held_until, now=at)
        since = turn.began_at or turn.created_at
        return phrases.WHY["bot"].format(since=plain(since), **facts)
    if turn.ready_at is not None and turn.ready_at > at and turn.faults:
        until = plain(turn.ready_at)
        return phrases.WHY["faulty"].format(reason=turn.reason, until=until, **facts)
    if turn.ready_at is not None and at - turn.ready_at > PATIENCE:
        return phrases.WHY["deferred"].format(reason=workers.nobody_takes(turn))
    since = wait.await_started_at or run.created_at
    return phrases.WHY["bot_idle"].format(since=plain(since), **facts)
