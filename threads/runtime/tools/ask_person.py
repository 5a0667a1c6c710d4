"""The tool `ask_person`: the turn waits for people, for days, and holds nothing."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from threads import phrases, questions
from threads.models import Gate, Turn
from threads.runtime.insist import insist
from threads.runtime.tools.protocol import Args, Handler
from threads.runtime.watch import Watch
from threads.text import clean, one_line


class AskPerson(Args):
    question: Annotated[
        str,
        Field(
            min_length=1,
            max_length=20_000,
            pattern=r"\S",
            description="What you want to know, in Markdown, for people who read only this.",
        ),
    ]
    kind: Annotated[
        Literal["reply", "approve", "choose"],
        Field(
            description="Whether you want words, a yes or no, or one of the choices."
        ),
    ] = "reply"
    choices: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=20)
    ] = []
    deadline_seconds: Annotated[
        int | None,
        Field(ge=60, le=366 * 86_400, description="Then you go on without an answer."),
    ] = None


def use(
    turn: Turn, args: AskPerson, *, number: int, watch: Watch
) -> dict[str, Any] | None:
    """Return the answer where it has come; None where the turn waits for it now."""
    if bool(args.choices) != (args.kind == "choose"):
        return {"ok": False, "text": phrases.CHOICES_WANTED}
    subject = f"ask:{turn.pk}:{number}"
    gate = Gate.objects.filter(subject=subject).first()
    if gate is not None and gate.state != Gate.State.OPEN:
        return answer(gate)
    question = questions.Question(
        subject=subject,
        title=str(turn.spec.get("step") or turn.bot.name),
        prompt=clean(args.question),
        kind=args.kind,
        choices=tuple(dict.fromkeys(one_line(word, 100) for word in args.choices)),
        deadline=args.deadline_seconds,
    )
    insist(lambda: questions.ask_for(turn, question))
    return None


def answer(gate: Gate) -> dict[str, Any]:
    """Return what people said as the call's result."""
    if gate.outcome == Gate.Outcome.EXPIRED:
        return {"ok": True, "answered": False, "text": phrases.NOT_ANSWERED}
    said = gate.reply
    if gate.kind == Gate.Kind.APPROVE:
        yes = gate.outcome == Gate.Outcome.APPROVED
        words = "yes" if yes else "no"
        said = (
            words if gate.reply in {"approve", "reject", words} else f"{words}: {said}"
        )
    text = phrases.ANSWERED.format(name=gate.closed_by, reply=said)
    return {"ok": True, "answered": True, "text": text}


handler = Handler(
    "ask_person",
    "Ask the people of this house and wait for their answer, for days if need be. Ask "
    "only what the tools cannot tell you, and one thing at a time.",
    AskPerson,
    use,
)
