"""Questions to people, as they are opened."""

from __future__ import annotations

from dataclasses import dataclass

from threads import db, phrases, points, services
from threads.locking import LockedThread, bot_author, locked
from threads.models import Entry, Gate, Thread, Turn


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


def ask_for(turn: Turn, question: Question) -> bool:
    """Park a turn on its bot's question to people; False where it was taken over.

    Asked once however often its call begins: the subject names turn and call.
    """
    with locked(turn.thread_id) as thread:
        if not park(turn):
            return False
        if Gate.objects.filter(subject=question.subject).exists():
            return True
        bot = bot_author(turn.bot)
        number = thread.append(
            question.prompt, author=bot, kind=Entry.Kind.MESSAGE, data={"ask": True}
        )
        gate = open_gate(thread, question, number=number)
        Gate.objects.filter(pk=gate.pk).update(turn=turn)
        points.written("ask")
        return True


def park(turn: Turn) -> bool:
    """Let a held turn wait and hold nothing: its limit does not count the wait."""
    return bool(
        Turn.objects.filter(services.held_by(turn), pk=turn.pk).update(
            state=Turn.State.WAITING,
            holder=None,
            held_until=None,
            due_at=None,
            ready_at=None,
        )
    )


def ask_whether(turn: Turn) -> None:
    """Park a turn that was interrupted on the question whether to run it again."""
    with locked(turn.thread_id) as thread:
        if not park(turn):
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
