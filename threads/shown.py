"""Entries and gates as a page shows them: words and choices, made before the template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.utils.safestring import SafeString, mark_safe

from threads import access, markdown, phrases, text
from threads.models import Gate, GateAnswer, Member
from threads.pages import digest

LONG_LINES = 24
LONG_TEXT = 4_000
TAIL_LINES = 10
HEAD_LINES = 14
HEAD_TEXT = 1_200
SIGNALS = {
    phrases.STARTED: "began",
    phrases.COMPLETED: "done",
    phrases.FAILED: "failed",
    phrases.CANCELLED: "cancelled",
}
SLIM = {"note", "signal"}


@dataclass(frozen=True)
class Line:
    """One entry of a thread: who said it, and how it looks."""

    number: int
    author: str
    by: str  # system, bot or person
    kind: str
    look: str  # slim, words, command or output
    at: str
    icon: str = ""
    lead: str = ""
    words: str = ""
    html: SafeString | None = None
    code: str = ""  # what is asked about
    lines: int = 0  # of what is folded
    part: str = ""  # of output: the end, beside the fold
    head: SafeString | None = None  # of words: the beginning, beside the fold

    @property
    def initial(self) -> str:
        return self.author[:1].upper()


def plain(words: str) -> str:
    """Return output as text: its colours and cursor moves mean nothing on a page."""
    return text.ESCAPE.sub("", words)


def safe(words: str) -> SafeString:
    return mark_safe(markdown.as_html(words))  # noqa: S308  nothing in it runs


def lines(
    entries: Iterable[Mapping[str, Any]],
    *,
    kinds: Mapping[str, str] | None = None,
    bot: str = "",
) -> list[Line]:
    """Return entries as lines; `kinds` says of which step kind an instruction is."""
    found = []
    asked = ""
    for entry in entries:
        if entry["kind"] == "instruction" and not entry.get("asks"):
            asked = (kinds or {}).get(entry["body"], "")
        found.append(line(entry, asked=asked, bot=bot))
    return found


def line(entry: Mapping[str, Any], *, asked: str, bot: str) -> Line:
    by, name = entry["author"]["kind"], entry["author"]["name"]
    known = {
        "number": entry["number"],
        "author": name,
        "by": by,
        "kind": entry["kind"],
        "at": entry["created_at"],
    }
    body: str = entry["body"]
    if entry["kind"] == "signal":
        return Line(**known, look="slim", **signal(name, body))
    if entry.get("asks"):
        question, code = parted(body)
        return Line(**known, lead="asks", code=code, **spoken(question))
    if entry["kind"] == "instruction":
        return Line(**known, **instruction(body, asked=asked, bot=bot))
    if by == "system" and asked == "query" and "\n" in body:
        return Line(**known, **spoken(body))  # the first rows, as a table
    if by == "system" and entry["kind"] == "note":
        return Line(**known, look="slim", words=body)
    if by == "bot" and asked == "run_command":
        return Line(**known, look="output", **output(body))
    lead = "answered" if entry["kind"] == "answer" else ""
    return Line(**known, lead=lead, **spoken(body))


def spoken(body: str) -> dict[str, Any]:
    """Return words as they read, folded behind their first lines where they are long."""
    rows = body.splitlines()
    if len(rows) <= LONG_LINES and len(body) <= LONG_TEXT:
        return {"look": "words", "html": safe(body)}
    first = rows[:HEAD_LINES]
    while first and (not first[-1].strip() or first[-1].startswith("```")):
        first.pop()  # a fence just opened would show an empty block
    part = "\n".join(first)[:HEAD_TEXT]
    return {"look": "words", "html": safe(body), "lines": len(rows), "head": safe(part)}


def parted(body: str) -> tuple[str, str]:
    """Part a question about a command from the command."""
    question, _, code = body.partition("\n\n")
    return question, code


def signal(name: str, body: str) -> dict[str, Any]:
    """Say what a signal means: “runner failed: exited with status 1”."""
    icon = SIGNALS.get(body.partition(": ")[0], "")
    return {"icon": icon, "words": plain(f"{name} {phrases.signal(body)}")}


def instruction(body: str, *, asked: str, bot: str) -> dict[str, Any]:
    match asked:
        case "run_command":
            return {"look": "command", "lead": f"asked {bot} to run", "words": body}
        case "dispatch_task":
            return {"lead": f"asked {bot}", **spoken(body)}
        case "human_gate":
            return {"lead": "asks", **spoken(body)}
        case "query":
            return {"lead": "reads", **spoken(body)}
        case _:
            return {"look": "slim", "words": body}


def output(body: str) -> dict[str, Any]:
    """Return output whole, with its last lines apart where it is long."""
    words = plain(body)
    rows = words.splitlines()
    if len(rows) <= LONG_LINES and len(words) <= LONG_TEXT:
        return {"words": words}
    tail = "\n".join(rows[-TAIL_LINES:])[-LONG_TEXT // 2 :]
    return {"words": words, "lines": len(rows), "part": tail}


@dataclass(frozen=True)
class Ask:
    """A question that waits, as the person who looks may meet it."""

    gate: Gate
    prompt: SafeString
    code: str  # the command it is about, if it is about one
    who: str
    progress: str
    bar: str  # why this person may not answer; empty where they may
    seen: str

    @property
    def yours(self) -> bool:
        return not self.bar


def open_gates(user: Any) -> QuerySet[Gate]:
    """Return what the user's houses wait for, oldest first."""
    houses = access.houses(user)
    return Gate.objects.filter(house__in=houses, state=Gate.State.OPEN).order_by(
        "created_at"
    )


def waiting_for(user: Any) -> int:
    """Count the questions that the user may answer now, in one query."""
    mine = Member.objects.filter(user=user, house=OuterRef("house"))
    said = GateAnswer.objects.filter(
        gate=OuterRef("pk"), iteration=OuterRef("iteration"), person=user
    )
    rows = open_gates(user).filter(~Exists(said)).defer("prompt")
    found: list[Any] = list(rows.annotate(role=Subquery(mine.values("role")[:1])))
    return sum(
        not bar_of(gate, Member(role=gate.role), user=user, said=()) for gate in found
    )


def asks(user: Any, gates: QuerySet[Gate]) -> list[Ask]:
    """Return gates as the user meets them, in a constant number of queries."""
    found = list(gates.prefetch_related("answers"))
    if not found:
        return []
    members = {m.house_id: m for m in Member.objects.filter(user=user)}
    return [ask(gate, members.get(gate.house_id), user=user) for gate in found]


def ask(gate: Gate, member: Member | None, *, user: Any) -> Ask:
    said = [a for a in gate.answers.all() if a.iteration == gate.iteration]
    bar = bar_of(gate, member, user=user, said=said)
    again = gate.turn_id is not None and not gate.of_bot
    prompt, code = parted(gate.prompt) if again else (gate.prompt, "")
    return Ask(
        gate=gate,
        prompt=safe(prompt),
        code=code,
        who=", ".join(gate.who) or "anyone in the house",
        progress=progress(gate, said),
        bar=bar,
        seen=digest(gate.pk, len(said), bar),
    )


def bar_of(
    gate: Gate, member: Member | None, *, user: Any, said: Sequence[GateAnswer]
) -> str:
    """Say why the person may not answer, as `gates.decide` would refuse it."""
    if member is None or member.role == Member.Role.VIEWER:
        return phrases.VIEWERS_READ
    if gate.who and not {member.role, user.get_username()} & set(gate.who):
        return phrases.NOT_FOR_YOU.format(who=", ".join(gate.who))
    if gate.not_starter and gate.starter_id == user.pk:
        return phrases.NOT_THE_STARTER
    mine = [answer for answer in said if answer.person_id == user.pk]
    return phrases.ANSWERED_ALREADY.format(answer=mine[0].answer) if mine else ""


def progress(gate: Gate, said: Sequence[GateAnswer]) -> str:
    if gate.approvals < 2:
        return ""
    have = sum(answer.answer == "approve" for answer in said)
    names = ", ".join(answer.name for answer in said)
    words = f"{have} of {gate.approvals} approvals so far"
    return f"{words} ({names})" if names else words
