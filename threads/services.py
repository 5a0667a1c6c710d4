"""The verbs of threads: every write to a room, a turn or a job begins here."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from psycopg.types.json import Jsonb

from threads import artifacts, db, envelopes, locking, notices, phrases, points, post
from threads.artifacts import Haul
from threads.liveness import FOLLOW_BOT, ORPHANED
from threads.locking import LockedThread, bot_author, locked
from threads.models import Bot, Entry, House, Job, Thread, Turn

open_thread = locking.open_thread
append_entry = locking.append_entry


@dataclass(frozen=True)
class Ask:
    """What a bot is asked to do."""

    what: str
    instruction: str
    key: str
    subject: str = ""
    needs: str = ""
    root: str = ""
    spec: dict[str, Any] | None = None


def ask_for_turn(thread: LockedThread, *, bot: Bot, ask: Ask) -> tuple[Turn, bool]:
    """Ask the bot for a turn in a locked thread; return it and whether it is new.

    A bot has one open turn a thread, and a single bot one open turn in all its rooms:
    whoever asks meanwhile is handed the turn that is open.
    """
    single = bot.single and ask.what == Turn.What.PROMPT
    slot = bot.pk if single and is_room(thread) else None
    turn = Turn(
        house_id=thread.house,
        namespace=bot.house.namespace,
        thread_id=thread.id,
        bot=bot,
        what=ask.what,
        instruction=ask.instruction,
        spec=ask.spec or {},
        key=ask.key,
        subject=ask.subject,
        needs=ask.needs,
        root=ask.root,
        slot=slot,
    )
    mine = Q(thread_id=thread.id, bot=bot)
    while not written(turn):
        # None where it has settled, in another room, since it stood in the way.
        busy = Turn.objects.active().filter(mine | Q(slot=slot) if slot else mine)
        if (standing := busy.first()) is not None:
            return standing, False
    thread.append(
        phrases.STARTED,
        author=bot_author(bot),
        kind=Entry.Kind.SIGNAL,
        data={"signal": phrases.STARTED},
    )
    points.written("asked")
    post.post_ticket("threads.turn", turn.pool, turn.pk, queue=turn.pool)
    return turn, True


def is_room(thread: LockedThread) -> bool:
    return Thread.objects.filter(pk=thread.id, kind=Thread.Kind.ROOM).exists()


def written(turn: Turn) -> bool:
    Turn.objects.bulk_create([turn], ignore_conflicts=True)
    return Turn.objects.filter(pk=turn.pk).exists()


@dataclass(frozen=True)
class Ending:
    """How a turn ended: its state, what the bot says, what the step gets."""

    state: str
    reason: str = ""
    says: str = ""
    result: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
    haul: Haul | None = None  # the files it leaves


SIGNALS = {
    Turn.State.SUCCEEDED.value: phrases.COMPLETED,
    Turn.State.FAILED.value: phrases.FAILED,
    Turn.State.CANCELLED.value: phrases.CANCELLED,
}


def settle_turn(turn: Turn, ending: Ending, *, guard: Q) -> bool:
    """Settle a turn while the guard holds, tell its thread and whoever waits for it.

    False where the turn was no longer ours to settle; nothing is written then.
    """
    with locked(turn.thread_id) as thread:
        return settle_in(thread, turn, ending, guard=guard)


def settle_in(thread: LockedThread, turn: Turn, ending: Ending, *, guard: Q) -> bool:
    """Settle a turn of a thread that is already locked."""
    settled = (
        Turn.objects.active()
        .filter(guard, pk=turn.pk)
        .update(
            state=ending.state,
            holder=None,
            held_until=None,
            due_at=None,
            ready_at=None,
            result=ending.result,
            reason=ending.reason,
            ended_at=Now(),
        )
    )
    if not settled:
        return False
    turn.state, turn.reason, turn.result = ending.state, ending.reason, ending.result
    author = bot_author(turn.bot)
    if ending.says:
        thread.append(
            ending.says, author=author, kind=Entry.Kind.MESSAGE, data=ending.data
        )
    if ending.haul is not None:
        artifacts.record(ending.haul, thread)
    signal = SIGNALS[ending.state]
    body = f"{signal}: {ending.reason}" if ending.reason else signal
    thread.append(body, author=author, kind=Entry.Kind.SIGNAL, data={"signal": signal})
    points.written("turn")
    notices.turn_settled.send(sender=Turn, turn=turn, thread=thread)
    return True


def held_by(turn: Turn) -> Q:
    """Return the fence of the attempt in hand: a zombie's write matches no row."""
    return Q(state=Turn.State.RUNNING, holder=turn.holder, attempts=turn.attempts)


def release_turn(turn: Turn, *, seconds: float = 0, fault: str = "") -> bool:
    """Hand a running turn back: drained, or after a fault worth another try.

    A drained turn costs nothing; a fault is counted and waits `seconds` on the row.
    """
    changes: dict[str, Any] = {"faults": F("faults") + 1, "reason": fault}
    with transaction.atomic():
        released = db.fetch(
            "UPDATE threads_turn SET state = 'pending', holder = NULL,"
            " held_until = NULL, due_at = NULL, ready_at = statement_timestamp()"
            " + make_interval(secs => %(seconds)s)"
            " WHERE id = %(id)s AND state = 'running' AND holder = %(holder)s"
            " AND attempts = %(attempts)s RETURNING id",
            {
                "id": turn.pk,
                "holder": turn.holder,
                "attempts": turn.attempts,
                "seconds": seconds,
            },
        )
        if released and fault:
            Turn.objects.filter(pk=turn.pk).update(**changes)
        points.written("back")
        if released and not seconds:
            post.post_ticket("threads.turn", turn.pool, turn.pk, queue=turn.pool)
    return bool(released)


def reclaim_turn(turn_id: UUID) -> bool:
    """Take a turn from a worker that died; after too many deaths settle it as failed.

    Filtered by the dead holder: a second reclaim, or a late one, changes nothing.
    """
    taken = db.fetch_one(
        "UPDATE threads_turn SET state = 'pending', holder = NULL, held_until = NULL,"  # noqa: S608
        " due_at = NULL, ready_at = statement_timestamp(), crashes = crashes + 1"
        f" WHERE id = %(id)s AND {ORPHANED} RETURNING crashes",
        {"id": turn_id},
    )
    if taken is None:
        return False
    points.reached("turn.reclaimed")
    turn = Turn.objects.select_related("bot").get(pk=turn_id)
    pending = Q(state=Turn.State.PENDING)
    if turn.cancel_asked_at is not None:
        return settle_turn(turn, Ending("cancelled", phrases.STOPPED), guard=pending)
    if turn.crashes > settings.TURN_RECLAIMS:
        reason = phrases.WORKER_DIED.format(count=turn.crashes)
        return settle_turn(turn, Ending("failed", reason), guard=pending)
    post.post_ticket("threads.turn", turn.pool, turn.pk, queue=turn.pool)
    return True


def cancel_turn(thread: LockedThread, turn: Turn) -> bool:
    """Settle a turn nothing executes; ask one that runs to stop. True if settled."""
    idle = Q(state__in=[Turn.State.PENDING, Turn.State.WAITING])
    if settle_in(thread, turn, Ending("cancelled", phrases.STOPPED), guard=idle):
        return True
    Turn.objects.filter(
        pk=turn.pk, state=Turn.State.RUNNING, cancel_asked_at=None
    ).update(cancel_asked_at=Now())
    return False


def wake_turn(thread: LockedThread, turn: Turn, *, again: bool) -> None:
    """Let a turn that waits for people run again, or settle it as interrupted."""
    waiting = Q(state=Turn.State.WAITING)
    if not again:
        ending = Ending("failed", phrases.INTERRUPTED_REFUSED)
        settle_in(thread, turn, ending, guard=waiting)
        return
    Turn.objects.filter(waiting, pk=turn.pk).update(
        state=Turn.State.PENDING,
        ready_at=Now(),
        spec={**turn.spec, "again": turn.attempts + 1},
    )
    points.written("woken")
    post.post_ticket("threads.turn", turn.pool, turn.pk, queue=turn.pool)


def overdue_turn(turn_id: UUID) -> bool:
    """Fail a turn that neither ended nor spoke by its deadline (A34).

    The worker that still runs it finds its fence gone and ends the command.
    """
    turn = Turn.objects.select_related("bot").get(pk=turn_id)
    limit = turn.spec.get("timeout") or settings.TURN_SECONDS
    reason = phrases.TURN_TOO_LONG.format(limit=phrases.seconds(limit))
    return settle_turn(turn, Ending("failed", reason), guard=Q(due_at__lt=Now()))


def follow_bot(turn_id: UUID) -> bool:
    """Ask a turn that nobody here can begin of the runtime its bot has by now."""
    for (pool,) in (followed := db.fetch(FOLLOW_BOT, {"id": turn_id})):
        post.post_ticket("threads.turn", pool, turn_id, queue=pool)
    return bool(followed)


def log_message(turn: Turn, *, kind: str, body: Any) -> int | None:
    """Write the next line of a held turn's log; None where it is no longer held.

    A person's words may take a number at the same moment: then the next one is tried.
    """
    while True:
        with contextlib.suppress(IntegrityError), transaction.atomic():
            row = db.fetch_one(
                "INSERT INTO threads_turnmessage (turn_id, number, kind, body)"
                " SELECT t.id, 1 + coalesce((SELECT max(m.number)"
                "  FROM threads_turnmessage m WHERE m.turn_id = t.id), 0),"
                "  %(kind)s, %(body)s FROM threads_turn t WHERE t.id = %(id)s"
                "  AND t.state = 'running' AND t.holder = %(holder)s"
                "  AND t.attempts = %(attempts)s RETURNING number",
                {
                    "id": turn.pk,
                    "holder": turn.holder,
                    "attempts": turn.attempts,
                    "kind": kind,
                    "body": Jsonb(body),
                },
            )
            points.written("log")
            return row[0] if row else None


def post_job(
    payload: envelopes.Payload, *, house: House | None = None, once: str = ""
) -> UUID | None:
    """Write a job in the caller's transaction; its ticket goes after the commit.

    `once` names work of which one may be open: a second is not written and None is
    returned. Raises BadEnvelope where the payload does not fit its type.
    """
    job = Job(
        house=house,
        namespace=house.namespace if house else settings.NAMESPACE,
        type=payload.type_name,
        payload=envelopes.validated(payload),
        dedupe_key=once,
    )
    with transaction.atomic():
        Job.objects.bulk_create([job], ignore_conflicts=bool(once))
        if once and not Job.objects.filter(pk=job.pk).exists():
            return None
        points.written("posted")
        post.post_ticket("threads.job", job.pk, queue="jobs")
    return job.pk
