"""Why a run is where it is, in words from the rows (C6)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import connection

from threads import phrases as thread_phrases
from threads.models import Gate, Pulse, Turn
from workflows import phrases, selectors, standing
from workflows.models import Checkpoint, Run, RunThread, Seat
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
        return phrases.WHY["paused"]
    if run.deferred:
        return phrases.WHY["deferred"].format(reason=run.deferred)
    late = now() - run.ready_at > PATIENCE
    return phrases.WHY["unclaimed" if late else "ready"].format(
        since=plain(run.ready_at)
    )


def sitting(run: Run) -> str:
    """Name the runs that have the places this one waits for."""
    seats = Seat.objects.filter(name=f"workflow:{run.workflow_id}")
    return ", ".join(str(pk) for pk in seats.values_list("run", flat=True))


def running_words(run: Run) -> str:
    if run.cancel_asked_at is not None:
        return standing.stopping(run)
    pulse = Pulse.objects.filter(pk=run.holder or 0).first()
    holder = f"{pulse.role} on {pulse.host}" if pulse else "a worker"
    return phrases.WHY["running"].format(
        step=step_name(run),
        since=plain(run.started_at or run.created_at),
        holder=holder,
    )


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
    if run.state == Run.State.PENDING and run.paused_at is not None:
        return waits("paused", standing.paused(run), run.paused_at)
    if run.state == Run.State.PENDING and run.deferred == Run.NO_SEAT:
        return waits("seat", pending_words(run), run.created_at)
    if run.state not in {Run.State.SLEEPING, Run.State.WAITING}:
        return None
    found = parked_on(run)
    words = f"{found['words']} {standing.paused(run)}".rstrip()
    return {**found, "words": words}


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
    return phrases.WHY["retrying" if retrying else "sleeping"].format(
        step=step_name(run), until=plain(run.due_at)
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
    idle = turn is not None and turn.state == Turn.State.PENDING
    if turn is not None and idle and (reason := nobody_for(turn)):
        return phrases.WHY["deferred"].format(reason=reason)
    return phrases.WHY["bot_idle" if idle else "bot"].format(
        bot=wait.worker_bot.name,
        step=step_name(run),
        since=plain(wait.await_started_at or run.created_at),
    )


def nobody_for(turn: Turn) -> str:
    """Say what the living workers lack for a turn that has stood ready for a while."""
    if turn.ready_at is None or now() - turn.ready_at <= PATIENCE:
        return ""
    workers = Pulse.objects.filter(
        namespace=turn.namespace, dead_at=None, role__startswith="worker-"
    )
    if not workers.exists():
        return ""
    if turn.needs and not workers.filter(runtimes__contains=[turn.needs]).exists():
        return thread_phrases.NO_RUNTIME.format(runtime=turn.needs)
    if turn.root and not workers.filter(root=turn.root).exists():
        return thread_phrases.NO_ROOT.format(root=turn.root)
    return ""
