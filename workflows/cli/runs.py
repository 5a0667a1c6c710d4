"""`wf spawn`, `runs`, `why`: runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rich.text import Text

from threads.models import House
from workflows import documents, pulses, services, why
from workflows.cli import acting, values
from workflows.cli.commands import Commands, Options
from workflows.cli.entries import HOW_TO_ANSWER, Tail
from workflows.cli.following import EXITS, NOT_ENDED, Watcher
from workflows.cli.moments import ago, took
from workflows.cli.output import Out, safe, state
from workflows.models import Run, RunThread
from workflows.pulses import span


def add(commands: Commands) -> None:
    spawn_ = commands.add("spawn", spawn, help="start a run; prints its id")
    spawn_.add_argument("slug", metavar="SLUG")
    spawn_.add_argument(
        "--payload", metavar="JSON", help="a JSON object, or @FILE, or @- for stdin"
    )
    spawn_.add_argument(
        "--key", metavar="K", default="", help="a repeated key gets the existing run"
    )
    spawn_.add_argument(
        "--wait",
        action="store_true",
        help="until it ends; exit status 3 failed, 4 cancelled, 5 not ended in time",
    )
    spawn_.add_argument("--timeout", metavar="S", help="seconds to wait at most")
    spawn_.add_argument(
        "--follow", action="store_true", help="show its thread as it grows"
    )
    runs_ = commands.add("runs", runs, help="list runs, newest first")
    runs_.add_argument("--state", metavar="S", default="")
    runs_.add_argument("--failed", action="store_true", help="only those that failed")
    runs_.add_argument("--workflow", metavar="W", default="")
    runs_.add_argument("--limit", metavar="N", default="20", help="default 20")
    why_ = commands.add("why", tell_why, help="why a run is where it is, in words")
    why_.add_argument("run", metavar="RUN")


def spawn(out: Out, options: Options) -> int:
    who = acting.actor(house=options["house"], as_=options["as_"])
    payload = values.json_object(options["payload"], where="payload")
    seconds = values.seconds(options["timeout"], where="--timeout")
    workflow = acting.workflow(who, options["slug"], role="member")
    spawned = services.spawn_run(
        workflow,
        payload=payload,
        key=options["key"],
        start=services.Start(by=who.user),
    )
    run = spawned.run
    tell_spawned(out, spawned, paused=workflow.paused)
    state, status = run.state, 0
    if options["wait"] or options["follow"]:
        state, ended = watch(out, run, seconds=seconds, follow=options["follow"])
        status = ended if options["wait"] else 0
    if out.as_json:
        out.document(spawned_document(spawned, state=state, whole=options["wait"]))
    return status


def tell_spawned(out: Out, spawned: services.Spawned, *, paused: bool) -> None:
    """Print the id alone on stdout, and beside it how the run was come by."""
    out.say(str(spawned.run.pk))
    if spawned.joined:
        out.notice("Joined the run that is still active.")
    elif not spawned.new:
        out.notice("This key was used before; this is the run it started.")
    elif paused:
        out.notice("The workflow is paused: the run begins when it is resumed.")


def spawned_document(
    spawned: services.Spawned, *, state: str, whole: bool
) -> dict[str, Any]:
    how = {"joined": spawned.joined, "new": spawned.new}
    run = acting.fresh(spawned.run)
    if whole:
        return {**documents.run(run), **how}
    line = {"id": str(run.pk), "workflow": run.workflow.slug, "state": state}
    return {**line, "key": run.key, **how}


def watch(
    out: Out, run: Run, *, seconds: float | None, follow: bool, after: int = 0
) -> tuple[str, int]:
    """Wait for a run, showing its thread if asked; return its state and exit status."""
    short = documents.short(run.pk)
    hint = HOW_TO_ANSWER.format(run=short)
    tail = Tail(out, RunThread.objects.get(run=run), after=after, hint=hint)
    try:
        watcher = Watcher(out, run.pk)
        each = tail.show_new if follow else None
        ended = watcher.until_ended(seconds=seconds, each=each)
    except KeyboardInterrupt:
        out.notice(
            f"\nThe run goes on. Come back with `manage.py wf show {short} --follow`."
        )
        raise
    run = acting.fresh(run)
    if ended is None:
        out.notice(f"Not ended after {span(seconds or 0)}: {why.in_words(run)}")
        return run.state, NOT_ENDED
    if not follow:
        out.notice(why.in_words(run))
    return ended, EXITS[ended]


def runs(out: Out, options: Options) -> None:
    who = acting.actor(house=options["house"], as_=options["as_"])
    if options["state"]:
        values.one_of(options["state"], Run.State.values, where="--state")
    limit = values.count(options["limit"], where="--limit", most=1000)
    if options["workflow"]:
        acting.workflow(who, options["workflow"])
    found = documents.runs(
        who.user,
        house=who.house,
        state=options["state"],
        failed=options["failed"],
        workflow=options["workflow"],
        limit=limit,
    )
    if out.as_json:
        out.document(found)
    else:
        show_runs(out, found, house=who.house)


def show_runs(out: Out, found: dict[str, Any], *, house: House) -> None:
    now = why.now()
    if found["runs"]:
        titles = ["RUN", "WORKFLOW", "STATE", "STARTED", "TOOK", "REASON"]
        rows = [titles, *(row(line, now=now) for line in found["runs"])]
        if out.narrow:
            rows = [[*cells[:3], cells[-1]] for cells in rows]
        out.table(rows[0], rows[1:])
    else:
        out.say("No such runs. `wf spawn SLUG` starts one.")
    show_pulse(out, found)


def row(line: dict[str, Any], *, now: datetime) -> list[Any]:
    return [
        line["short"],
        line["workflow"],
        state(line["state"]),
        ago(line["created_at"], now=now),
        took(line["started_at"], line["finished_at"], now=now),
        line["reason"],
    ]


def show_pulse(out: Out, found: dict[str, Any]) -> None:
    pulse, idle = found["conductor"], found["unclaimed"]
    out.say(Text(pulse["words"], style="dim" if pulse["alive"] else "bold red"))
    for words in found["notes"]:
        out.say(Text(words, style="bold red"))
    if idle["count"]:
        what = " and ".join(
            f"{idle[noun]} {noun if idle[noun] > 1 else noun[:-1]}"
            for noun in ("runs", "turns")
            if idle[noun]
        )
        out.say(
            Text(
                f"Nobody has taken {what}, ready for up to "
                f"{span(idle['oldest_seconds'])}: is a worker up?",
                style="bold red",
            )
        )


def tell_why(out: Out, options: Options) -> None:
    who = acting.actor(house=options["house"], as_=options["as_"], run=options["run"])
    run = acting.run(who, options["run"])
    words = why.in_words(run)
    pulse = pulses.conductor()
    if out.as_json:
        line = {"run": str(run.pk), "state": run.state, "why": words}
        waits = {"waiting_for": why.waiting_for(run), "conductor": pulse}
        out.document({**line, **waits})
        return
    out.say(safe(words))
    if run.state in Run.ACTIVE and not pulse["alive"]:
        out.say(pulse["words"])
