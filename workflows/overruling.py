"""End the step a run stands at by hand: skip it, or set what it leaves."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from threads import db, gates, points, post
from threads import services as thread_services
from threads.locking import LockedThread, locked, person_author
from threads.models import Turn
from workflows import cancelling, phrases, selectors, why
from workflows.byhand import SILENT, Hand
from workflows.exceptions import (
    ByHandAlready,
    NotReached,
    RunSettled,
    RunStopping,
    StepAtWork,
)
from workflows.journal import as_json
from workflows.models import Checkpoint, Run, RunThread
from workflows.moments import stamp
from workflows.sending import done_event

# Whatever a run waits for that no turn works on, in one statement: it goes on, its wait
# is over, its step is recorded. A claim that came first leaves no row to move.
END = """
WITH moved AS (
    UPDATE workflows_run r
       SET state = 'pending', position = r.position + 1, iteration = 1, crashes = 0,
           due_at = NULL, needs = '', pool = 'steps',
           ready_at = CASE WHEN r.deferred = ANY(%(held_back)s) THEN r.ready_at
                           ELSE statement_timestamp() END,
           deferred = CASE WHEN r.deferred = ANY(%(held_back)s) THEN r.deferred
                           ELSE '' END
     WHERE r.id = %(run)s AND r.state IN ('pending', 'sleeping', 'waiting')
       AND r.cancel_asked_at IS NULL
       AND r.position = %(position)s AND r.iteration = %(iteration)s
 RETURNING r.id, r.house_id, r.pool, r.ready_at
), unparked AS (
    UPDATE workflows_runthread w SET awaiting = false, updated_at = statement_timestamp()
      FROM moved WHERE w.run_id = moved.id AND w.awaiting
), emitted AS (
    INSERT INTO workflows_event (house_id, name, key, payload)
    SELECT house_id, %(event)s, id::text, %(told)s::jsonb FROM moved
     WHERE NOT %(silent)s
    ON CONFLICT DO NOTHING
), step AS (
    INSERT INTO workflows_checkpoint AS c (run_id, position, iteration, tries, crashes,
        name, kind, state, instruction, result, error, by_hand, started_at, finished_at)
    SELECT moved.id, %(position)s, %(iteration)s, 1, 0, %(name)s, %(kind)s, %(state)s,
           '', %(result)s::jsonb, %(error)s, %(by_hand)s::jsonb, statement_timestamp(),
           statement_timestamp()
      FROM moved
    ON CONFLICT (run_id, position, iteration) DO UPDATE
       SET state = excluded.state, result = excluded.result, error = excluded.error,
           by_hand = excluded.by_hand, finished_at = excluded.finished_at
)
SELECT pool, ready_at FROM moved
"""


@dataclass(frozen=True)
class Place:
    """The step a run stands at, and what a person makes of it."""

    run: Run
    wait: RunThread
    name: str
    kind: str
    words: Mapping[str, Any]

    def entry(self) -> str:
        skips = self.words["state"] == Checkpoint.State.SKIPPED
        said = phrases.SKIPPED_BY_HAND if skips else phrases.SET_BY_HAND
        who, reason = self.words["by"], self.words["reason"]
        return said.format(step=self.name, who=who, reason=reason)


def skip_step(
    run_id: UUID, *, reason: str, by: Any = None, who: str = "", step: str = ""
) -> Run:
    """Skip the step a run stands at; the step's bot, question or run is let go of.

    `step` is the one meant: another is refused. Raises RunSettled, RunStopping,
    StepAtWork, NotReached, ByHandAlready or NeedsReason.
    """
    return end_step(run_id, Hand(reason, skips=True), by=by, who=who, step=step)


def set_result(
    run_id: UUID,
    result: object,
    *,
    reason: str,
    by: Any = None,
    who: str = "",
    step: str = "",
) -> Run:
    """Complete the step a run stands at with this result.

    Refused as a skip is, and with BadResult for what its kind does not leave.
    """
    return end_step(run_id, Hand(reason, result=result), by=by, who=who, step=step)


def end_step(
    run_id: UUID, hand: Hand, *, by: Any = None, who: str = "", step: str = ""
) -> Run:
    """End the step a run stands at as the hand says."""
    name = who or (person_author(by).name if by else "System")
    thread_id = RunThread.objects.values_list("thread", flat=True).get(run=run_id)
    with locked(thread_id) as thread:
        place = stands_at(run_id, hand, who=name, step=step)
        turn = open_turn(place)
        gates.withdraw(thread)
        if turn is None:
            end_at_once(place)
            thread.append(place.entry())
        else:
            end_turn(thread, place, turn)
        place.run.refresh_from_db()
        points.written("hand")
        return place.run


def stands_at(run_id: UUID, hand: Hand, *, who: str, step: str) -> Place:
    run = Run.objects.select_related("workflow").get(pk=run_id)
    if run.state in Run.SETTLED:
        raise RunSettled(why.in_words(run))
    if run.cancel_asked_at is not None:
        raise RunStopping
    steps = selectors.plan_steps(run.plan_id)
    if run.position >= len(steps):
        raise NotReached(phrases.ALL_STEPS_DONE)
    stored = steps[run.position]
    if step and step != stored["name"]:
        raise NotReached(phrases.STANDS_ELSEWHERE.format(at=stored["name"], step=step))
    if run.state == Run.State.RUNNING:
        raise StepAtWork
    wait = RunThread.objects.get(run=run)
    at = stamp(why.now())
    known = {
        "by": who,
        "until": at,
        "event": wait.event_name or stored.get("event", ""),
        "run": str(wait.await_run or ""),
    }
    words = hand.kept(stored["kind"], who=who, at=at, known=known)
    return Place(run, wait, stored["name"], stored["kind"], words)


def open_turn(place: Place) -> Turn | None:
    """Return the turn a run waits for that has not ended."""
    if not place.wait.awaiting or place.wait.await_turn_id is None:
        return None
    found = Turn.objects.active().select_related("bot")
    return found.filter(pk=place.wait.await_turn_id).first()


def end_turn(thread: LockedThread, place: Place, turn: Turn) -> None:
    """Say on the step how it ends, and end its turn; finish takes the one for the other.

    What a worker has begun is asked to stop: the step ends when it does, however.
    """
    run = place.run
    here = Checkpoint.objects.filter(
        run=run, position=run.position, iteration=run.iteration
    )
    if not here.filter(by_hand__isnull=True).update(by_hand=place.words):
        raise ByHandAlready
    ended = thread_services.cancel_turn(thread, turn)
    thread.append(place.entry())
    if not ended:
        thread.append(phrases.BY_HAND_STOPPING)


def end_at_once(place: Place) -> None:
    """End a step that nobody works on, and cancel the run it has started.

    That run before this one's row, as whoever settles it does.
    """
    run, words = place.run, place.words
    child = cancelling.own_child(place.wait) if place.wait.awaiting else None
    if child is not None:
        reason = phrases.CHILD_OF_STEP.format(step=place.name, run=run.pk)
        with contextlib.suppress(RunSettled):
            cancelling.cancel_run(child.pk, who="System", reason=reason)
    skips = words["state"] == Checkpoint.State.SKIPPED
    event = done_event(run.pk, run.position, run.iteration)
    row = db.fetch_one(
        END,
        {
            "run": run.pk,
            "position": run.position,
            "iteration": run.iteration,
            "held_back": [Run.NO_SEAT, Run.PAUSED],
            "name": place.name,
            "kind": place.kind,
            "state": words["state"],
            "result": as_json(words["result"]),
            "error": words["reason"] if skips else "",
            "by_hand": as_json(words),
            "silent": place.kind in SILENT,
            "event": event,
            "told": as_json({"state": words["state"], "reason": words["reason"]}),
        },
    )
    if row is None:
        raise StepAtWork  # taken in this very moment: nothing stands of what was done
    pool, ready_at = row
    if ready_at is not None:
        post.post_ticket("workflows.advance", pool, run.pk, queue=pool)
