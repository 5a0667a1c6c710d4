"""Questions to people: opened, decided, spoken to. The verbs behind every door."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models.functions import Now

from threads import answers, db, notices, phrases, points, services, text
from threads.exceptions import (
    AlreadyAnswered,
    BadAnswer,
    GateClosed,
    Malformed,
    NotAllowed,
    NotFound,
    NotYourGate,
)
from threads.locking import LockedThread, locked, person_author
from threads.models import Entry, Gate, GateAnswer, Member, Thread, Turn, TurnMessage


@dataclass(frozen=True)
class Question:
    """What a gate asks, whom, and what happens when nobody answers."""

    subject: str
    title: str
    prompt: str
    kind: str = Gate.Kind.APPROVE
    iteration: int = 1
    who: tuple[str, ...] = ()
    approvals: int = 1
    not_starter: bool = False
    starter: int | None = None
    choices: tuple[str, ...] = ()
    deadline: float | None = None
    on_deadline: str = Gate.OnDeadline.FAIL


def open_gate(thread: LockedThread, question: Question, *, number: int) -> Gate:
    """Open a gate in a locked thread; `number` is the entry that asks."""
    house = Thread.objects.select_related("house").get(pk=thread.id).house
    gate = Gate.objects.create(
        house=house,
        namespace=house.namespace,
        thread_id=thread.id,
        subject=question.subject,
        title=question.title,
        prompt=question.prompt,
        kind=question.kind,
        iteration=question.iteration,
        who=list(question.who),
        approvals=question.approvals,
        not_starter=question.not_starter,
        starter_id=question.starter,
        choices=list(question.choices),
        on_deadline=question.on_deadline,
        opened_number=number,
    )
    if question.deadline is not None:
        # The database's clock, as everywhere a row is due.
        row = db.fetch_one(
            "UPDATE threads_gate SET due_at = statement_timestamp()"
            " + make_interval(secs => %(seconds)s) WHERE id = %(id)s RETURNING due_at",
            {"seconds": question.deadline, "id": gate.pk},
        )
        gate.due_at = row[0] if row else None
    return gate


def decide(
    gate_id: UUID, *, person: Any, answer: str, door: str, comment: str = ""
) -> Gate:
    """Answer a gate outright; the first valid answer that closes it wins.

    Raises GateClosed (with who and when), NotYourGate, NotAllowed, AlreadyAnswered,
    BadAnswer, Malformed, or NotFound for a gate of another house.
    """
    found = Gate.objects.filter(pk=gate_id).first()
    if found is None:
        raise NotFound
    with locked(found.thread_id) as thread:
        gate = Gate.objects.get(pk=gate_id)
        said = answer if not comment else f"{answer}: {comment}"
        take(thread, gate, person=person, answer=answer, said=said, door=door)
        return gate


def take(
    thread: LockedThread, gate: Gate, *, person: Any, answer: str, said: str, door: str
) -> None:
    """Record one person's answer in a locked thread and close the gate if it decides."""
    if gate.state != Gate.State.OPEN:
        answers.may_see(gate, person)
        raise GateClosed(answers.closed_words(gate))
    answers.may_answer(gate, person)
    kept = answers.valid_answer(gate, answer)
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
        have = gate.answers.filter(answer="approve").count()
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
    closed = Gate.objects.filter(pk=gate.pk, state=Gate.State.OPEN).update(
        state=Gate.State.CLOSED,
        outcome=outcome,
        closed_by=by,
        reply=reply,
        due_at=None,
        closed_at=Now(),
    )
    if not closed:
        return False
    gate.refresh_from_db()
    points.written("decide")
    if gate.turn is not None:
        services.wake_turn(thread, gate.turn, again=outcome == Gate.Outcome.APPROVED)
    notices.gate_decided.send(sender=Gate, gate=gate, thread=thread)
    return True


def withdraw(thread: LockedThread) -> None:
    """Close every open gate of a locked thread without an answer; nobody is told."""
    Gate.objects.filter(thread_id=thread.id, state=Gate.State.OPEN).update(
        state=Gate.State.CLOSED,
        outcome=Gate.Outcome.WITHDRAWN,
        due_at=None,
        closed_at=Now(),
    )


def ask_whether(turn: Turn) -> None:
    """Park a turn that was interrupted on the question whether to run it again."""
    with locked(turn.thread_id) as thread:
        parked = Turn.objects.filter(services.held_by(turn), pk=turn.pk).update(
            state=Turn.State.WAITING, holder=None, held_until=None, due_at=None
        )
        if not parked:
            return
        prompt = phrases.RUN_AGAIN.format(instruction=turn.instruction)
        number = thread.append(prompt, kind=Entry.Kind.INSTRUCTION, data={"ask": True})
        question = Question(
            subject=f"turn:{turn.pk}:{turn.attempts}",
            title=turn.spec.get("step") or turn.what,
            prompt=prompt,
        )
        gate = open_gate(thread, question, number=number)
        Gate.objects.filter(pk=gate.pk).update(turn=turn)
        points.written("ask")


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
        thread.append(phrases.EXPIRED[gate.on_deadline])
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
        member = Member.objects.filter(house_id=thread.house, user=person).first()
        if member is None or not person.is_active:
            raise NotFound
        if member.role == Member.Role.VIEWER:
            raise NotAllowed(phrases.VIEWERS_READ)
        gate = Gate.objects.filter(thread_id=thread_id, state=Gate.State.OPEN).first()
        if gate is not None:
            return answer_by_words(thread, gate, person=person, said=said, door=door)
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


def answer_by_words(
    thread: LockedThread, gate: Gate, *, person: Any, said: str, door: str
) -> Spoken:
    """Read words as the answer; where they are not one, keep them and ask again."""
    try:
        answers.may_answer(gate, person)
        answers.valid_answer(gate, said)
    except (NotYourGate, AlreadyAnswered) as error:
        number = thread.append(
            said, author=person_author(person), kind=Entry.Kind.MESSAGE
        )
        thread.append(str(error))
        return Spoken(number)
    except BadAnswer as error:
        number = thread.append(
            said, author=person_author(person), kind=Entry.Kind.MESSAGE
        )
        unclear = phrases.UNCLEAR.format(text=text.one_line(said, 80))
        thread.append(unclear if gate.kind == Gate.Kind.APPROVE else str(error))
        return Spoken(number)
    number = thread.last_number + 1
    take(thread, gate, person=person, answer=said, said=said, door=door)
    return Spoken(number, understood=gate.outcome or "counted", gate=gate.pk)


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
