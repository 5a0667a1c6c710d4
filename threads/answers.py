"""Who may answer a gate, what counts as an answer, and what the answers come to."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import connection

from threads import phrases, replies, text
from threads.exceptions import (
    AlreadyAnswered,
    BadAnswer,
    Malformed,
    NotAllowed,
    NotFound,
    NotYourGate,
)
from threads.models import Gate, GateAnswer, Member


def is_late(gate: Gate) -> bool:
    return gate.due_at is not None and gate.due_at < database_now()


def database_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
        return now


def voice(house: int, person: Any) -> Member:
    """Return the membership of a person who may speak; raise NotFound or NotAllowed."""
    member = Member.objects.filter(house_id=house, user=person).first()
    if member is None or not person.is_active:
        raise NotFound
    if member.role == Member.Role.VIEWER:
        raise NotAllowed(phrases.VIEWERS_READ)
    return member


def may_answer(gate: Gate, person: Any, member: Member) -> None:
    """Raise NotYourGate or AlreadyAnswered where this member may not."""
    names = {member.role, person.get_username(), person.email} - {""}
    if gate.who and not names & set(gate.who):
        raise NotYourGate(phrases.NOT_FOR_YOU.format(who=", ".join(gate.who)))
    if gate.not_starter and gate.starter_id == person.pk:
        raise NotYourGate(phrases.NOT_THE_STARTER)
    for said in standing(gate):
        if said.person_id == person.pk:
            raise AlreadyAnswered(phrases.ANSWERED_ALREADY.format(answer=said.answer))


def standing(gate: Gate) -> list[GateAnswer]:
    """Return the answers to the question as it stands, read once with the gate."""
    return [a for a in gate.answers.all() if a.iteration == gate.iteration]


def approvals(gate: Gate) -> int:
    """Return how many have approved, with the one whose answer is just being taken."""
    return 1 + sum(said.answer == "approve" for said in standing(gate))


def closed_words(gate: Gate) -> str:
    at = f"{gate.closed_at:%Y-%m-%d %H:%M} UTC"
    if gate.outcome == Gate.Outcome.WITHDRAWN:
        return phrases.WITHDRAWN.format(at=at)
    return phrases.ALREADY_CLOSED.format(
        outcome=gate.outcome, name=gate.closed_by or "nobody", at=at
    )


WORDS = {
    "approve": "approve", "approved": "approve", "yes": "approve",
    "reject": "reject", "rejected": "reject", "no": "reject",
}  # fmt: skip
EXPECTED = {
    Gate.Kind.APPROVE.value: "say approve or reject",
    Gate.Kind.ACKNOWLEDGE.value: "say acknowledge",
    Gate.Kind.REPLY.value: "write some words",
}


def valid_answer(gate: Gate, answer: str) -> str:
    """Return the answer as the gate keeps it; raise BadAnswer or Malformed."""
    try:
        text.refuse(answer, where="answer")
    except text.Unclean as error:
        raise Malformed(str(error)) from None
    said = answer.strip()
    if not said:
        raise BadAnswer(phrases.EMPTY_ANSWER)
    expected = EXPECTED.get(gate.kind, "")
    match gate.kind:
        case Gate.Kind.APPROVE:
            found = WORDS.get(said.lower()) or replies.read_approval(said)
        case Gate.Kind.ACKNOWLEDGE:
            found = None if said.endswith("?") else "acknowledge"
        case Gate.Kind.CHOOSE:
            found = {c.lower(): c for c in gate.choices}.get(said.lower())
            expected = "choose " + " or ".join(gate.choices)
        case _:
            found = said
    if found is None:
        short = text.one_line(said, 60)
        raise BadAnswer(phrases.NOT_AN_ANSWER.format(answer=short, expected=expected))
    return found


def outcome_of(gate: Gate, kept: str) -> str | None:
    """Return what this answer and those before come to, or None while more are needed."""
    match gate.kind:
        case Gate.Kind.APPROVE:
            if kept == "reject":
                return Gate.Outcome.REJECTED.value
            enough = approvals(gate) >= gate.approvals
            return Gate.Outcome.APPROVED.value if enough else None
        case Gate.Kind.ACKNOWLEDGE:
            return Gate.Outcome.ACKNOWLEDGED.value
        case _:
            return Gate.Outcome.REPLIED.value


def may_see(gate: Gate, person: Any) -> None:
    if not Member.objects.filter(house_id=gate.house_id, user=person).exists():
        raise NotFound
