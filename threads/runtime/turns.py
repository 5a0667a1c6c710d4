"""Claim a turn, let it work, settle."""

from __future__ import annotations

import logging
import time
from uuid import UUID

from django.conf import settings

from threads import db, hands, phrases, points, questions, services
from threads.liveness import known_runtimes
from threads.models import Turn
from threads.runtime import commands, gathering, prompts, workspace
from threads.runtime.faults import Broken, Fault
from threads.runtime.insist import insist
from threads.runtime.watch import Watch, draining
from threads.services import Ending

logger = logging.getLogger(__name__)

GRACE_SECONDS = 30  # the sandbox keeps the limit; the row's deadline is the net below
FITS = (
    "(t.needs = '' OR t.needs = ANY(%(runtimes)s))"
    " AND (t.root = '' OR t.root = %(root)s)"
)

# The first worker to take a run's turn gives it the workspace root it works under.
CLAIM = f"""
WITH picked AS (SELECT {db.fair_pick("threads_turn", fits=FITS)} AS id)
UPDATE threads_turn u
   SET state = 'running', holder = %(holder)s, attempts = u.attempts + 1,
       held_until = statement_timestamp() + make_interval(secs => %(lease)s),
       began_at = COALESCE(u.began_at, statement_timestamp()),
       due_at = statement_timestamp() + make_interval(secs =>
           COALESCE((u.spec->>'timeout')::float, %(limit)s) + %(grace)s),
       root = CASE WHEN u.root = '' THEN %(root)s ELSE u.root END
  FROM picked WHERE u.id = picked.id AND u.state = 'pending'
RETURNING u.id, u.house_id
"""  # noqa: S608


class Round:
    """Where this process is in its walk around the houses."""

    after = 0


def claim(*, pool: str, holder: int, hint: UUID | None = None) -> Turn | None:
    """Take the hinted turn while its house has its share, else the next house's."""
    row = db.fetch_one(
        CLAIM,
        {
            "namespace": settings.NAMESPACE,
            "pool": pool,
            "hint": hint or db.NO_HINT,
            "after": Round.after,
            "runtimes": sorted(known_runtimes),
            "root": workspace.root_id(),
            "holder": holder,
            "lease": settings.LEASE_SECONDS,
            "limit": settings.TURN_SECONDS,
            "grace": GRACE_SECONDS,
        },
    )
    if row is None:
        return None
    Round.after = row[1]
    return Turn.objects.select_related("bot", "house").get(pk=row[0])


def work_off(*, pool: str, holder: int, hint: UUID | None = None) -> int:
    """Work turns off until none is ready; return how many were worked."""
    points.reached("turn.called")
    worked = 0
    while not draining.is_set():
        since = time.monotonic()
        turn = insist(lambda: claim(pool=pool, holder=holder, hint=hint))  # noqa: B023
        if turn is None:
            break
        hint = None
        points.reached("turn.claimed")
        with hands.hold(turn.pk):
            work(turn, since=since)
        worked += 1
    return worked


def work(turn: Turn, *, since: float | None = None) -> None:
    """Let a claimed turn work and settle it; what a retry cannot mend settles at once."""
    watch = Watch(turn)
    stood = time.monotonic() - since if since is not None else 0.0
    if stood > settings.LEASE_SECONDS / 2:
        # Since the claim: it begins nothing that another has taken over meanwhile.
        watch.look()
        if watch.lost:
            return
    try:
        # It begins again from its log or its record where the database went away.
        ended = insist(lambda: execute(turn, watch))
        ending = insist(lambda: gathering.gathered(turn, ended))
    except (commands.Refused, Broken) as error:
        ending = Ending(Turn.State.FAILED, str(error))
    except commands.Interrupted:
        ending = interrupted(turn)
    except Fault as fault:
        ending = again(turn, fault)
    except Exception as error:
        logger.exception("Turn %s failed", turn.pk)
        ending = Ending(Turn.State.FAILED, f"{type(error).__name__}: {error}")
    if ending is None:
        return
    settled = ending
    points.reached("turn.worked")
    insist(lambda: services.settle_turn(turn, settled, guard=services.held_by(turn)))
    points.reached("turn.settled")


def execute(turn: Turn, watch: Watch) -> Ending | None:
    """Return how the turn ended, or None where it was handed back or taken over."""
    if turn.what == Turn.What.PROMPT:
        return prompts.converse(turn, watch)
    result = commands.run(turn, turn.instruction, watch=watch)
    if result.interrupted:
        if watch.lost:
            return None
        if not draining.is_set():
            if commands.careful(turn):
                raise commands.Interrupted
            raise Fault(phrases.CUT_OFF)
        insist(lambda: services.release_turn(turn))
        return None
    return commands.ending(turn, result)


def interrupted(turn: Turn) -> Ending | None:
    """Fail a command whose end nobody knows, or ask people whether to run it again."""
    if turn.spec.get("if_interrupted") != "ask":
        return Ending(Turn.State.FAILED, phrases.INTERRUPTED)
    insist(lambda: questions.ask_whether(turn))
    return None


def again(turn: Turn, fault: Fault) -> Ending | None:
    """Put a fault's next try on the row, or end the turn where none is left (B11)."""
    if turn.faults >= settings.TURN_RETRIES:
        return Ending(Turn.State.FAILED, str(fault))
    delay = fault.seconds * 2**turn.faults
    insist(lambda: services.release_turn(turn, seconds=delay, fault=str(fault)))
    return None
