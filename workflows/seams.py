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

from django.db.models import Q

from threads import db, points, post
from threads.locking import LockedThread
from threads.models import Gate, Turn
from workflows import (
    journal,
    outcomes,
    parking,
    payloads,
    phrases,
    plan,
    selectors,
    settling,
    why,
)
from workflows.models import Checkpoint, Run, RunThread
from workflows.parking import Park
from workflows.sending import again, delay_of, done_event


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
    state = Checkpoint.State.FAILED
    if turn.state == Turn.State.SUCCEEDED:
        state = Checkpoint.State.COMPLETED
    stopped = turn.state == Turn.State.CANCELLED
    back = Back(state, turn.reason, turn.result, root=turn.root, final=stopped)
    facts = {"thread": thread.id, "turn": turn.pk}
    go_on(thread, db.fetch_one(UNPARK_TURN, facts), back)


def gate_decided(*, gate: Gate, thread: LockedThread, **kwargs: Any) -> None:
    """Finish the step that waits for this very gate."""
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
    facts = {"thread": thread.id, "gate": gate.pk}
    go_on(thread, db.fetch_one(UNPARK_GATE, facts), back)


@dataclass(frozen=True)
class Waited:
    """A run whose wait has just been cleared."""

    run: UUID
    plan_id: int
    position: int
    iteration: int
    pool: str
    cancel_asked: bool
    by_hand: dict[str, Any] | None  # how a person ended the step

    def step(self) -> plan.Step | plan.Unknown | None:
        return selectors.step_at(self.plan_id, self.position)


# Clears the wait where run and step key still match (A21), or the wait of this very turn
# or gate in the locked thread.
UNPARKING = """
UPDATE workflows_runthread w
   SET awaiting = false, updated_at = statement_timestamp()
  FROM workflows_run r LEFT JOIN workflows_checkpoint c
    ON c.run_id = r.id AND c.position = r.position AND c.iteration = r.iteration
 WHERE r.id = w.run_id AND w.awaiting AND {match}
RETURNING w.await_key, r.id, r.plan_id, r.position, r.iteration, r.pool,
          r.cancel_asked_at IS NOT NULL, c.by_hand
"""
UNPARK = UNPARKING.format(match="w.run_id = %(run)s AND w.await_key = %(key)s")
UNPARK_TURN = UNPARKING.format(
    match="w.thread_id = %(thread)s AND w.await_turn_id = %(turn)s"
)
UNPARK_GATE = UNPARKING.format(
    match="w.thread_id = %(thread)s AND w.await_gate_id = %(gate)s"
)
# The run goes on, its step is recorded, its event emitted. First write wins: a later
# completion of the same step changes nothing (A20).
FINISH = """
WITH moved AS (
    UPDATE workflows_run r
       SET state = CASE WHEN %(delay)s::float IS NULL THEN 'pending' ELSE 'sleeping' END,
           due_at = statement_timestamp() + make_interval(secs => %(delay)s::float),
           position = %(next_position)s, iteration = %(next_iteration)s, crashes = 0,
           ready_at = statement_timestamp(), needs = '',
           root = COALESCE(NULLIF(%(root)s, ''), r.root),
           failure = COALESCE(r.failure, %(failure)s::jsonb)
     WHERE r.id = %(run)s AND r.state IN ('waiting', 'sleeping')
       AND r.position = %(position)s AND r.iteration = %(iteration)s
 RETURNING r.id, r.house_id
), emitted AS (
    INSERT INTO workflows_event (house_id, name, key, payload)
    SELECT house_id, %(event)s, id::text, %(payload)s::jsonb FROM moved
    ON CONFLICT DO NOTHING
), closed AS (
    UPDATE workflows_checkpoint c
       SET state = %(state)s, result = %(result)s::jsonb, error = %(error)s,
           finished_at = statement_timestamp()
      FROM moved
     WHERE c.run_id = moved.id AND c.position = %(position)s
       AND c.iteration = %(iteration)s
)
SELECT id FROM moved
"""


def finish(thread: LockedThread, wait: RunThread, back: Back) -> bool:
    """Emit the step's event, clear the wait, record the step and let the run go on.

    Inside the writer's locked thread. A late or repeated finisher finds the key gone
    and changes nothing.
    """
    facts = {"run": wait.run_id, "key": wait.await_key}
    return go_on(thread, db.fetch_one(UNPARK, facts), back)


def go_on(thread: LockedThread, cleared: db.Row | None, back: Back) -> bool:
    """Let the run go on whose wait has been cleared, if one has."""
    if cleared is None:
        return False
    event, *facts, words = cleared
    waited = Waited(*facts, by_hand=payloads.loaded(words))  # type: ignore[misc]
    if waited.by_hand is not None:
        back = set_by_hand(waited.by_hand)
    if may_try_again(waited, back) and try_again(thread, waited, back):
        return True
    if not moved_on(waited, event, back):
        return False
    points.written("finish")
    if waited.cancel_asked:
        run = Run.objects.select_related("workflow").get(pk=waited.run)
        settling.stop(
            thread, run, guard=Q(state__in=[Run.State.PENDING, Run.State.SLEEPING])
        )
    else:
        post.post_ticket(
            "workflows.advance", waited.pool, waited.run, queue=waited.pool
        )
    return True


def set_by_hand(words: Mapping[str, Any]) -> Back:
    """Return what a person set in the place of what came back."""
    skips = words["state"] == Checkpoint.State.SKIPPED
    reason = words["reason"] if skips else ""
    return Back(words["state"], reason, words["result"], final=True)


def moved_on(waited: Waited, event: str, back: Back) -> bool:
    step = waited.step()
    repeat = selectors.repeat_at(waited.plan_id, waited.position)
    again = not (back.final or waited.cancel_asked) and outcomes.repeats(
        repeat, waited.iteration, back.state
    )
    stops = None if again else failure_of(waited, step, back)
    failed = back.state == Checkpoint.State.FAILED
    state = back.state
    if waited.cancel_asked and back.final and failed:
        state = Checkpoint.State.CANCELLED
    facts = {
        "run": waited.run,
        "position": waited.position,
        "iteration": waited.iteration,
        "next_position": waited.position + (0 if again else 1),
        "next_iteration": waited.iteration + 1 if again else 1,
        "delay": (repeat.delay or None) if again and repeat else None,
        "root": back.root,
        "failure": journal.as_json(stops),
        "event": event,
        "payload": journal.as_json({"state": back.state, "reason": back.reason}),
        "state": state,
        "result": journal.as_json(back.result),
        "error": back.reason,
    }
    return db.fetch_one(FINISH, facts) is not None


def failure_of(
    waited: Waited, step: plan.Step | plan.Unknown | None, back: Back
) -> dict[str, str] | None:
    """Return what a step that ends like this fails the run with, if anything."""
    if getattr(step, "on_error", "stop") != "stop":
        return None
    ends = [(str(back.state), back.reason)]
    if waited.iteration > 1 and waited.by_hand is None:
        ends = [*selectors.iterations(waited.run, waited.position), *ends]
    repeat = selectors.repeat_at(waited.plan_id, waited.position)
    state, reason = outcomes.repeated(repeat, ends)
    if state != Checkpoint.State.FAILED:
        return None
    return {"step": step.name if step else "", "reason": reason}


def may_try_again(waited: Waited, back: Back) -> bool:
    failed = back.state == Checkpoint.State.FAILED
    return failed and not waited.cancel_asked and not back.final


def try_again(thread: LockedThread, waited: Waited, back: Back) -> bool:
    """Put the next try's due time on the row; False where no try is left."""
    step = waited.step()
    row = Checkpoint.objects.filter(
        run=waited.run, position=waited.position, iteration=waited.iteration
    ).first()
    retries = getattr(step, "retries", None)
    delay = delay_of(retries, row.tries) if row else None
    if row is None or delay is None or step is None or isinstance(step, plan.Unknown):
        return False
    key = done_event(waited.run, waited.position, waited.iteration)
    wait = Park("time", key, seconds=delay)
    taken, _ = parking.parked(waited.run, wait, states=[Run.State.WAITING.value])
    if not taken:
        return False
    Checkpoint.objects.filter(pk=row.pk).update(
        state=Checkpoint.State.SLEEPING, tries=row.tries + 1, error=back.reason
    )
    again(thread, step, delay=delay, number=row.tries + 1, reason=back.reason)
    points.written("again")
    return True


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
