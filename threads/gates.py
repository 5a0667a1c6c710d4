"""Questions to people: decided, spoken to, closed. The verbs behind every door."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.functions import Now

from threads import answers, db, notices, phrases, points, post, services, text
from threads.exceptions import (
    AlreadyAnswered,
    BadAnswer,
    GateClosed,
    Malformed,
    NotFound,
    NotYourGate,
)
from threads.locking import LockedThread, locked, person_author
from threads.models import Entry, Gate, GateAnswer, Member, Turn, TurnMessage


def decide(
    gate_id: UUID, *, person: Any, answer: str, door: str, comment: str = ""
) -> Gate:
    """Answer a gate outright; the first valid answer that closes it wins.

    Raises GateClosed (with who and when), NotYourGate, NotAllowed, AlreadyAnswered,
    BadAnswer, Malformed, or NotFound for a gate of another house.
    """
    found = Gate.objects.filter(pk=gate_id).order_by().values_list("thread_id")
    where = found.first()
    if where is None:
        raise NotFound
    with locked(where[0]) as thread:
        gate = with_answers().get(pk=gate_id)
        said = answer if not comment else f"{answer}: {comment}"
        take(thread, gate, person=person, answer=answer, said=said, door=door)
        return gate


def with_answers() -> QuerySet[Gate]:
    return Gate.objects.prefetch_related("answers")


def take(
    thread: LockedThread, gate: Gate, *, person: Any, answer: str, said: str, door: str
) -> None:
    """Record one person's answer in a locked thread and close the gate if it decides."""
    if gate.state != Gate.State.OPEN:
        answers.may_see(gate, person)
        raise GateClosed(answers.closed_words(gate))
    answers.may_answer(gate, person, answers.voice(gate.house_id, person))
    kept = answers.valid_answer(gate, answer)
    record(thread, gate, person=person, kept=kept, said=said, door=door)


def record(
    thread: LockedThread, gate: Gate, *, person: Any, kept: str, said: str, door: str
) -> None:
    """Keep an answer that was found valid, and close the gate if it decides."""
    try:
        text.refuse(said, where="comment")
    except text.Unclean as error:
        raise Malformed(str(error)) from None
    author = person_author(person)
    GateAnswer.objects.create(
        gate=gate,
        iteration=gate.iteration,
        person=person,
        name=author.name,
        answer=kept[:200],
        comment=said,
        door=door,
    )
    thread.append(said, author=author, kind=Entry.Kind.ANSWER, data={"door": door})
    outcome = answers.outcome_of(gate, kept)
    if outcome is None:
        have = answers.approvals(gate)
        thread.append(
            phrases.MORE_ANSWERS.format(
                have=have, want=gate.approvals, left=gate.approvals - have
            )
        )
        return
    late = phrases.LATE if answers.is_late(gate) else ""
    if door == "thread" and gate.kind == Gate.Kind.APPROVE:
        thread.append(
            phrases.UNDERSTOOD.format(outcome=outcome, name=author.name) + late
        )
    reply = said if gate.kind == Gate.Kind.APPROVE else kept
    close(thread, gate, outcome=outcome, by=author.name, reply=reply)


def close(
    thread: LockedThread, gate: Gate, *, outcome: str, by: str = "", reply: str = ""
) -> bool:
    """Close an open gate by one conditional update and tell whoever waits for it."""
    closed = db.fetch_one(
        "UPDATE threads_gate SET state = 'closed', outcome = %(outcome)s,"
        " closed_by = %(by)s, reply = %(reply)s, due_at = NULL,"
        " closed_at = statement_timestamp() WHERE id = %(id)s AND state = 'open'"
        " RETURNING closed_at",
        {"id": gate.pk, "outcome": outcome, "by": by, "reply": reply},
    )
    if closed is None:
        return False
    gate.state, gate.outcome, gate.closed_by = Gate.State.CLOSED, outcome, by
    gate.reply, gate.due_at, gate.closed_at = reply, None, closed[0]
    points.written("decide")
    if gate.turn is not None and gate.of_bot:
        resume(gate.turn)
    elif gate.turn is not None:
        services.wake_turn(thread, gate.turn, again=outcome == Gate.Outcome.APPROVED)
    notices.gate_decided.send(sender=Gate, gate=gate, thread=thread)
    return True


def resume(turn: Turn) -> None:
    """Let a turn go on whose bot has waited for people, in their locked thread."""
    waiting = Turn.objects.filter(pk=turn.pk, state=Turn.State.WAITING)
    waiting.update(state=Turn.State.PENDING, ready_at=Now())
    points.written("woken")
    post.post_ticket("threads.turn", turn.pool, turn.pk, queue=turn.pool)


def withdraw(thread: LockedThread) -> None:
    """Close every open gate of a locked thread without an answer; nobody is told."""
    Gate.objects.filter(thread_id=thread.id, state=Gate.State.OPEN).update(
        state=Gate.State.CLOSED,
        outcome=Gate.Outcome.WITHDRAWN,
        due_at=None,
        closed_at=Now(),
    )


EXPIRED_AS = {
    "fail": Gate.Outcome.EXPIRED.value,
    "approve": Gate.Outcome.APPROVED.value,
    "reject": Gate.Outcome.REJECTED.value,
    "skip": Gate.Outcome.SKIPPED.value,
}


def expire(gate_id: UUID) -> bool:
    """Apply a gate's outcome for silence, if it is still open and past its deadline."""
    found = Gate.objects.filter(pk=gate_id, due_at__lt=Now()).first()
    if found is None:
        return False
    with locked(found.thread_id) as thread:
        gate = Gate.objects.filter(
            pk=gate_id, state=Gate.State.OPEN, due_at__lt=Now()
        ).first()
        if gate is None:
            return False
        silence = phrases.EXPIRED_BOT if gate.of_bot else ""
        thread.append(silence or phrases.EXPIRED[gate.on_deadline])
        outcome = EXPIRED_AS[gate.on_deadline]
        return close(thread, gate, outcome=outcome, by="the deadline")


@dataclass(frozen=True)
class Spoken:
    """Which entry was made of the words, and what they decided, if anything."""

    number: int
    understood: str | None = None
    gate: UUID | None = None


def speak(thread_id: UUID, *, person: Any, text: str, door: str = "thread") -> Spoken:
    """Say something in a thread: an answer, steering, or a question to System.

    Raises NotFound for an outsider, NotAllowed for a viewer, Malformed or BadAnswer
    for words that cannot be kept.
    """
    said = sayable(text)
    with locked(thread_id) as thread:
        member = answers.voice(thread.house, person)
        gate = with_answers().filter(thread_id=thread_id, state="open").first()
        if gate is not None:
            said_by = By(person, member, door)
            return answer_by_words(thread, gate, said=said, by=said_by)
        number = thread.append(
            said, author=person_author(person), kind=Entry.Kind.MESSAGE
        )
        steered = steer(thread_id, said)
        points.written("speak")
        notices.entry_appended.send(
            sender=Entry, thread=thread, person=person, said=said, steered=steered
        )
        return Spoken(number)


def sayable(words: str) -> str:
    try:
        text.refuse(words, where="text")
    except text.Unclean as error:
        raise Malformed(str(error)) from None
    if not words.strip():
        raise BadAnswer(phrases.EMPTY_ANSWER)
    return words.strip()


@dataclass(frozen=True)
class By:
    """Who speaks, as which member, at which door."""

    person: Any
    member: Member
    door: str


def answer_by_words(thread: LockedThread, gate: Gate, *, said: str, by: By) -> Spoken:
    """Read words as the answer; where they are not one, keep them and ask again."""
    try:
        answers.may_answer(gate, by.person, by.member)
        kept = answers.valid_answer(gate, said)
    except (NotYourGate, AlreadyAnswered) as error:
        return not_an_answer(thread, by, said, str(error))
    except BadAnswer as error:
        unclear = phrases.UNCLEAR.format(text=text.one_line(said, 80))
        asks_again = unclear if gate.kind == Gate.Kind.APPROVE else str(error)
        return not_an_answer(thread, by, said, asks_again)
    number = thread.last_number + 1
    record(thread, gate, person=by.person, kept=kept, said=said, door=by.door)
    return Spoken(number, understood=gate.outcome or "counted", gate=gate.pk)


def not_an_answer(thread: LockedThread, by: By, said: str, words: str) -> Spoken:
    author = person_author(by.person)
    number = thread.append(said, author=author, kind=Entry.Kind.MESSAGE)
    thread.append(words)
    return Spoken(number)


def steer(thread_id: UUID, said: str) -> str:
    """Put words where the open turn hears them at its next message boundary.

    Returns what the open turn does, or an empty string where there is none.
    """
    turn = Turn.objects.active().filter(thread_id=thread_id).first()
    if turn is None:
        return ""
    kind = TurnMessage.Kind.PERSON
    while turn.what == Turn.What.PROMPT:
        last = TurnMessage.objects.filter(turn=turn).order_by("-number").first()
        number = last.number + 1 if last else 1
        words = TurnMessage(turn=turn, number=number, kind=kind, body={"text": said})
        # The bot may take the number at this moment: then the next one is tried.
        TurnMessage.objects.bulk_create([words], ignore_conflicts=True)
        if TurnMessage.objects.filter(turn=turn, number=number, kind=kind).exists():
            break
    return turn.what
