"""`wf reply` and `wf decide`: what people say to a run."""

from __future__ import annotations

from typing import Any

from threads import gates
from threads.exceptions import GateClosed
from threads.models import Gate
from workflows import documents, why
from workflows.cli import acting, values
from workflows.cli.commands import Commands, Options
from workflows.cli.entries import Tail
from workflows.cli.output import Out, Refusal
from workflows.models import Run, RunThread


def add(commands: Commands) -> None:
    reply_ = commands.add(
        "reply", reply, help="speak in a run's thread; answers its open question"
    )
    reply_.add_argument("run", metavar="RUN")
    reply_.add_argument("text", metavar="TEXT")
    decide_ = commands.add(
        "decide", decide, help="answer a run's open question outright"
    )
    decide_.add_argument("run", metavar="RUN")
    decide_.add_argument(
        "answer",
        metavar="ANSWER",
        help="approve, reject, acknowledge, a choice or text",
    )
    decide_.add_argument("--comment", metavar="C", default="")
    decide_.add_argument("--form", metavar="JSON", help="the fields of a form")


def reply(out: Out, options: Options) -> None:
    who = acting.actor(house=options["house"], as_=options["as_"], run=options["run"])
    run = acting.run(who, options["run"])
    wait = RunThread.objects.get(run=run)
    spoken = gates.speak(wait.thread_id, person=who.user, text=options["text"])
    run = acting.fresh(run)
    if out.as_json:
        out.document(
            {
                "run": str(run.pk),
                "number": spoken.number,
                "understood": spoken.understood,
                "gate": str(spoken.gate) if spoken.gate else None,
                "state": run.state,
            }
        )
        return
    Tail(out, wait, after=spoken.number - 1).show_new()
    if spoken.understood is None and run.state == Run.State.WAITING:
        out.notice(documents.run_line(run)["reason"].capitalize() + ", still.")


def decide(out: Out, options: Options) -> None:
    who = acting.actor(house=options["house"], as_=options["as_"], run=options["run"])
    form = values.json_object(options["form"], where="form")
    run = acting.run(who, options["run"])
    gate = open_gate(run) or last_gate(run)
    if gate is None:
        raise GateClosed(f"This run asks nothing. {why.in_words(run)}")
    if form is not None and gate.kind != Gate.Kind.FORM:
        raise Refusal("form: this question does not take one")
    decided = gates.decide(
        gate.pk,
        person=who.user,
        answer=options["answer"],
        comment=options["comment"],
        door="cli",
    )
    document = answer_document(run, decided)
    if out.as_json:
        out.document(document)
    elif decided.outcome:
        short = documents.short(run.pk)
        out.say(f"“{decided.title}” is {decided.outcome}: {short} goes on.")
    else:
        out.say("Counted; more answers are needed.")


def open_gate(run: Run) -> Gate | None:
    mine = Gate.objects.filter(thread=RunThread.objects.get(run=run).thread_id)
    return mine.filter(state=Gate.State.OPEN).order_by("created_at").first()


def last_gate(run: Run) -> Gate | None:
    mine = Gate.objects.filter(thread=RunThread.objects.get(run=run).thread_id)
    return mine.order_by("-created_at").first()


def answer_document(run: Run, gate: Gate) -> dict[str, Any]:
    return {
        "gate": str(gate.pk),
        "outcome": gate.outcome or None,
        "by": gate.closed_by or None,
        "run": str(run.pk),
        "state": acting.fresh(run).state,
    }
