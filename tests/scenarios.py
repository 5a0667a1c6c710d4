"""What is played under the crash kit: a recipe for each kind of step and each verb."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection

from tests import drive, factories, hands
from tests.kills import Case, Scenario, World
from threads import gates
from threads.liveness import known_runtimes
from threads.models import Bot, Entry, Gate, Job
from threads.runtime import jobs
from threads.runtime.bots import RUNTIMES
from threads.runtime.bots.protocol import Brief, Final, Line, Move
from threads.runtime.faults import Fault
from workflows import events, sweep
from workflows.models import Event, RunThread
from workflows.services import (
    cancel_run,
    pause_run,
    resume_run,
    retry_run,
    skip_step,
)

Step = dict[str, Any]


def witness(name: str, **more: Any) -> Step:
    return factories.call(
        name, "witness", args={"line": f"{name}:{{{{run.id}}}}"}, **more
    )


def around(*steps: Step) -> Any:
    return lambda world, slug: [witness("before"), *steps, witness("after")]


def marking(**more: Any) -> Any:
    """Return a recipe of one command that leaves its mark."""
    return lambda world, slug: [
        witness("before"),
        factories.command("work", world.mark("work"), **more),
        witness("after"),
    ]


def decides(case: Case, answer: str = "approve") -> None:
    """Answer every open question of the runs, by the page."""
    case.start(case.scenario.runs)
    for run in case.runs():
        for gate in Gate.objects.filter(thread=drive.thread_of(run), state="open"):
            gates.decide(gate.pk, person=case.world.alice, answer=answer, door="page")


def joins(case: Case) -> None:
    """Start twice, the second time to be handed the run that stands; then answer."""
    case.start(2)
    decides(case)


def speaks(case: Case) -> None:
    """Say something unclear at the gate, then something that decides."""
    case.start()
    for run in case.runs():
        thread = drive.thread_of(run)
        if Gate.objects.filter(thread=thread, state="open").exists():
            said = Entry.objects.filter(thread=thread, author_kind="person").count()
            words = "hm, what is it about?" if not said else "yes"
            gates.speak(thread, person=case.world.alice, text=words)


def talks(case: Case) -> None:
    """Speak to a run that sleeps; System answers from the rows."""
    case.start()
    for run in case.runs():
        thread = drive.thread_of(run)
        said = Entry.objects.filter(thread=thread, author_kind="person").exists()
        if run.state == "sleeping" and not said:
            gates.speak(thread, person=case.world.alice, text="Are you there?")
        if run.state == "sleeping" and said:
            hands.sql(
                "UPDATE workflows_run SET due_at = statement_timestamp() WHERE id = %s"
                " AND state = 'sleeping'",
                run.pk,
            )


def cancels(case: Case) -> None:
    """Cancel the first run once it waits for people, or its own run does."""
    case.start()
    waits = RunThread.objects.filter(run__in=case.runs(), awaiting=True)
    if waits.filter(await_kind="gate").exists():
        first = next(r for r in case.runs() if r.parent_id is None)
        if first.cancel_asked_at is None:
            cancel_run(first.pk, by=case.world.alice, reason="enough")


def pauses(case: Case) -> None:
    """Pause the run at its gate, resume it, then answer."""
    case.start()
    for run in case.runs():
        if Gate.objects.filter(thread=drive.thread_of(run), state="open").exists():
            if "Paused by alice." not in drive.bodies(run):
                pause_run(run.pk, by=case.world.alice)
            elif run.paused_at is not None:
                resume_run(run.pk, by=case.world.alice)
            else:
                decides(case)


def overrules(case: Case) -> None:
    """Skip the gate of the first run, or the run that it waits for."""
    case.start()
    waits = RunThread.objects.filter(run__in=case.runs(), awaiting=True)
    first = next((r for r in case.runs() if r.parent_id is None), None)
    if first is not None and waits.filter(await_kind="gate").exists():
        at = first.steps.order_by("position").last()
        if at is not None and at.state == "waiting":
            skip_step(first.pk, by=case.world.alice, reason="known", step=at.name)


def late(case: Case) -> None:
    """Let the run's deadline come while it sleeps."""
    case.start()
    for run in case.runs():
        hands.sql(
            "UPDATE workflows_run SET deadline_at = statement_timestamp() WHERE id = %s"
            " AND state = 'sleeping' AND deadline_at > statement_timestamp()",
            run.pk,
        )


def retries(case: Case) -> None:
    case.start()
    runs = case.runs()
    if len(runs) == 1 and runs[0].state == "failed":
        retry_run(runs[0], by=case.world.alice, from_step="after")


def emits(case: Case) -> None:
    case.start()
    name = f"{case.slug}.event"
    waits = RunThread.objects.filter(event_name=name, awaiting=True)
    if waits.exists() and not Event.objects.filter(name=name).exists():
        events.emit_event(case.world.house, name, payload={"n": 1})


def slot_is_due(case: Case) -> None:
    hands.sql(
        "UPDATE workflows_workflow SET next_slot_at = statement_timestamp()"
        " - interval '1 second' WHERE id = %s",
        case.flow.pk,
    )


def mails(case: Case) -> None:
    """Start, and do not let the mail's next try wait its half minute."""
    case.start()
    hands.sql(
        "UPDATE threads_job SET ready_at = statement_timestamp()"
        " WHERE state = 'pending' AND ready_at > statement_timestamp()"
    )


def shaky_mail(case: Case) -> None:
    jobs.handlers["mail.v1"] = no_server


def no_server(payload: Any) -> None:
    """Fail at the first attempt, as a server that does not answer."""
    if Job.objects.filter(state="running", attempts=1).exists():
        raise ConnectionError("no mail server")


class Shaky:
    """A bot whose first move fails with what a retry mends."""

    name = "shaky"

    def next_move(self, brief: Brief, log: Sequence[Line]) -> Move:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT faults FROM threads_turn WHERE instruction = %s",
                [brief.prompt],
            )
            if not cursor.fetchone()[0]:
                raise Fault("the line was busy", seconds=0.05)
        return Final("done")


def shaky_bot(case: Case) -> None:
    RUNTIMES.setdefault("shaky", Shaky())
    known_runtimes.add("shaky")
    bot, _ = Bot.objects.get_or_create(
        house=case.world.house,
        handle="shaky",
        defaults={"name": "shaky", "runtime": "shaky"},
    )
    case.flow.bot = bot
    type(case.flow).objects.filter(pk=case.flow.pk).update(bot=bot)


LONG = "sleep 1.2; echo half; sleep 0.4"
LINE = {"line": "long:{{run.id}}"}
FAILS: Step = factories.call("fails", "fails")


def long_command(world: World, slug: str) -> list[Step]:
    script = f"{world.mark('work')}; {LONG}"
    return [factories.command("work", script, if_interrupted="ask")]


def parent(world: World, slug: str) -> list[Step]:
    step = {"name": "child", "kind": "run_workflow", "workflow": f"{slug}-other"}
    return [witness("before"), step, witness("after")]


def waiting(world: World, slug: str) -> list[Step]:
    step = {"name": "wait", "kind": "wait_for_event", "event": f"{slug}.event"}
    return [witness("before"), step, witness("after")]


def prompted(world: World, slug: str) -> list[Step]:
    words = f"Look at {slug}.\nnote.py:3: AssertionError"
    return [witness("before"), factories.prompt("look", words), witness("after")]


def fails_once(world: World, slug: str) -> list[Step]:
    return [witness("before"), FAILS, witness("after", when="always")]


AGAIN = {"limit": 1, "delay": 0.05}
ROOM: Step = {"name": "room", "kind": "open_thread", "title": "A", "prompt": "B"}
KINDS = [
    Scenario("call", around()),
    Scenario("long", around(factories.call("long", "slow", args=LINE))),
    Scenario("command", marking()),
    Scenario("prompt", prompted),
    Scenario("sleep", around(factories.sleep("rest", 0.05))),
    Scenario("gate", around(factories.gate("ask")), decides),
    Scenario("event", waiting, emits),
    Scenario("child", parent, runs=2, other=around()),
    Scenario("room", around(ROOM)),
]
VERBS = [
    Scenario("repeat", around(witness("often", repeat={"times": 2, "delay": 0.05}))),
    Scenario("tries", around({**FAILS, "retries": AGAIN, "on_error": "continue"})),
    Scenario(
        "attempts",
        around(
            factories.command("bad", "exit 3", retries=AGAIN, on_error="continue"),
        ),
    ),
    Scenario(
        "silence", around(factories.gate("ask", deadline=0.05, on_deadline="approve"))
    ),
    Scenario("words", around(factories.gate("ask")), speaks),
    Scenario("talk", around(factories.sleep("rest", 600)), talks),
    Scenario("cancel", around(factories.gate("ask")), cancels),
    Scenario("descend", parent, cancels, runs=2, other=around(factories.gate("ask"))),
    Scenario("pause", around(factories.gate("ask")), pauses),
    Scenario("hand", around(factories.gate("ask")), overrules),
    Scenario("disown", parent, overrules, runs=2, other=around(factories.gate("ask"))),
    Scenario("retry", fails_once, retries, runs=2),
    Scenario("notify", fails_once, more={"notify": ["alice"]}),
    Scenario("late", around(factories.sleep("rest", 600)), late, {"deadline": 600}),
    Scenario(
        "slot", around(), lambda case: None, {"schedule": "@yearly"}, setup=slot_is_due
    ),
    Scenario(
        "seat",
        around(factories.gate("ask")),
        decides,
        {"overlap": "wait"},
        runs=2,
    ),
    Scenario("join", around(factories.gate("ask")), joins, {"overlap": "join"}),
    Scenario("slice", marking(), slice_seconds=0.0),
    Scenario("swept", marking(), prelude=("advance.claimed",), mend=sweep.sweep),
    Scenario("fault", prompted, setup=shaky_bot),
    Scenario("reclaim", marking(), prelude=("advance.claimed",)),
    Scenario("retake", marking(), prelude=("turn.claimed",)),
    Scenario("asked", long_command, decides, prelude=("log.committed",), asks=True),
    Scenario("mail", fails_once, mails, more={"notify": ["alice"]}, setup=shaky_mail),
    Scenario("job", fails_once, more={"notify": ["alice"]}, prelude=("job.claimed",)),
]
