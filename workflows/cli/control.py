"""`wf cancel`, `retry`, `pause`, `resume`, `skip`, `set`, `emit`: what people do to runs."""

from __future__ import annotations

from typing import Any

from workflows import authoring, documents, events, services, why
from workflows.byhand import Hand
from workflows.cli import acting, recipes, values
from workflows.cli.commands import Commands, Options
from workflows.cli.output import Out, Refusal
from workflows.exceptions import NotFound, RunActive, RunSettled
from workflows.models import Run, Workflow
from workflows.moments import plain, stamp

NOR_RUN = "Nor is there such a run; `wf runs` lists them."


def add(commands: Commands) -> None:
    cancel_ = commands.add("cancel", cancel, help="stop a run")
    cancel_.add_argument("run", metavar="RUN")
    cancel_.add_argument("--reason", metavar="R", default="")
    add_retry(commands)
    pause_ = commands.add(
        "pause",
        pause,
        help="a workflow: skip its slots, hold new runs back; a run: begin no step",
    )
    pause_.add_argument("what", metavar="SLUG|RUN")
    pause_.add_argument("--reason", metavar="R", default="")
    resume_ = commands.add("resume", resume, help="let what is paused go on")
    resume_.add_argument("what", metavar="SLUG|RUN")
    skip_ = commands.add("skip", skip, help="skip the step a run stands at")
    skip_.add_argument("run", metavar="RUN")
    set_ = commands.add("set", set_result, help="end that step with a result, by hand")
    set_.add_argument("run", metavar="RUN")
    set_.add_argument("result", metavar="RESULT", help="JSON, or @FILE, or @-")
    for parser in (skip_, set_):
        parser.add_argument("--reason", metavar="R", required=True)
        parser.add_argument(
            "--step", metavar="S", default="", help="refuse where it stands elsewhere"
        )
    emit_ = commands.add("emit", emit, help="emit an event to whatever waits for it")
    emit_.add_argument("name", metavar="NAME")
    emit_.add_argument("--payload", metavar="JSON", help="a JSON object, or @FILE")
    emit_.add_argument(
        "--key", metavar="K", default="", help="the first event with a key stands"
    )


def add_retry(commands: Commands) -> None:
    parser = commands.add("retry", retry, help="a new run that keeps earlier results")
    parser.add_argument("run", metavar="RUN")
    parser.add_argument(
        "--from", dest="from_", metavar="STEP", default="", help="begin at this step"
    )
    parser.add_argument("--payload", metavar="JSON", help="another payload, or @FILE")
    hand = parser.add_mutually_exclusive_group()
    hand.add_argument("--skip", action="store_true", help="that step, and go on")
    hand.add_argument(
        "--result", metavar="JSON", help="what that step leaves, by hand; or @FILE"
    )
    parser.add_argument(
        "--reason", metavar="R", default="", help="why, with --skip or --result"
    )


def one_run(options: Options, *, role: str) -> tuple[acting.Actor, Run]:
    code = options["run"]
    who = acting.actor(house=options["house"], as_=options["as_"], run=code)
    return who, acting.run(who, code, role=role)


def told(out: Out, run: Run, words: str) -> None:
    """Say it, or return the run as `wf show --json` does."""
    if out.as_json:
        out.document(documents.run(acting.fresh(run)))
    else:
        out.say(words)


def cancel(out: Out, options: Options) -> None:
    who, run = one_run(options, role="member")
    try:
        services.cancel_run(run.pk, by=who.user, reason=options["reason"])
    except RunSettled as error:
        raise settled(run, error) from None
    run = acting.fresh(run)
    short = documents.short(run.pk)
    ended = run.state in Run.SETTLED
    stopping = f"Asked {short} to stop; what runs now is stopped."
    told(out, run, f"Cancelled {short}." if ended else stopping)


def settled(run: Run, error: RunSettled) -> RunSettled:
    """Say that a run has ended: how, by whom and when."""
    run = acting.fresh(run)
    reason = documents.run_line(run)["reason"]
    by = f" ({reason})" if run.state == Run.State.CANCELLED and reason else ""
    words = f"Run {documents.short(run.pk)} has already ended. {error}{by}"
    return RunSettled(words)


def retry(out: Out, options: Options) -> None:
    hand = hand_of(options)
    who, old = one_run(options, role="author" if hand else "member")
    payload = values.json_object(options["payload"], where="payload")
    try:
        spawned = services.retry_run(
            old, by=who.user, from_step=options["from_"], payload=payload, hand=hand
        )
    except RunActive as error:
        raise RunActive(f"{error} {why.in_words(old)}") from None
    run = acting.fresh(spawned.run)
    if out.as_json:
        how = {"joined": spawned.joined, "new": spawned.new}
        out.document({**documents.run(run), **how})
        return
    out.say(str(run.pk))
    if not spawned.new:
        out.notice("Joined the run that is still active.")
        return
    begun = [step for step in documents.run(run)["steps"] if step["by_hand"] is None]
    kept = [step["name"] for step in begun if step["position"] < run.position]
    out.notice(f"A new run; it keeps {', '.join(kept) or 'nothing'}.")


def hand_of(options: Options) -> Hand | None:
    """Return what a retry puts in the place of the step it would do again."""
    reason, result = options["reason"], options["result"]
    if options["skip"]:
        return Hand(reason, skips=True)
    if result is not None:
        return Hand(reason, result=values.json_value(result, where="result"))
    if reason:
        raise Refusal("--reason: goes with --skip or --result")
    return None


def pause(out: Out, options: Options) -> None:
    who, found = named(options)
    reason = options["reason"]
    if isinstance(found, Workflow):
        authoring.pause_workflow(found, reason=reason)
        words = "Its slots are skipped and new runs wait; runs under way go on."
        recipes.answer(out, who, found.slug, f"Paused {found.slug}. {words}")
        return
    try:
        services.pause_run(found.pk, by=who.user, reason=reason)
    except RunSettled as error:
        raise settled(found, error) from None
    words = "What runs now goes on to its end; no further step begins."
    told(out, found, f"Paused {documents.short(found.pk)}. {words}")


def resume(out: Out, options: Options) -> None:
    who, found = named(options)
    if isinstance(found, Workflow):
        authoring.resume_workflow(found)
        recipes.answer(out, who, found.slug, f"Resumed {found.slug}.")
        return
    try:
        run = services.resume_run(found.pk, by=who.user)
    except RunSettled as error:
        raise settled(found, error) from None
    told(out, run, f"Resumed {documents.short(run.pk)}. {why.in_words(run)}")


def named(options: Options) -> tuple[acting.Actor, Workflow | Run]:
    """Return the workflow of that slug, else the run of that id."""
    name = options["what"]
    who = acting.actor(house=options["house"], as_=options["as_"], run=name)
    try:
        return who, acting.workflow(who, name, role="author")
    except NotFound as unknown:
        try:
            return who, acting.run(who, name, role="member")
        except NotFound:
            raise NotFound(f"{unknown} {NOR_RUN}") from None


def skip(out: Out, options: Options) -> None:
    by_hand(out, options, Hand(options["reason"], skips=True))


def set_result(out: Out, options: Options) -> None:
    result = values.json_value(options["result"], where="result")
    by_hand(out, options, Hand(options["reason"], result=result))


def by_hand(out: Out, options: Options, hand: Hand) -> None:
    who, run = one_run(options, role="author")
    try:
        run = services.end_step(run.pk, hand, by=who.user, step=options["step"])
    except RunSettled as error:
        words = "`wf retry RUN --skip --reason R` goes on past the step that failed."
        raise RunSettled(f"{settled(run, error)} {words}") from None
    words = "Skipped" if hand.skips else "Set"
    told(out, run, f"{words} a step of {documents.short(run.pk)}. {why.in_words(run)}")


def emit(out: Out, options: Options) -> None:
    who = acting.actor(house=options["house"], as_=options["as_"])
    who.needs("member")
    payload = values.json_object(options["payload"], where="payload")
    emitted = events.emit_event(
        who.house, options["name"], payload=payload, key=options["key"]
    )
    if out.as_json:
        out.document(event_document(emitted))
    elif emitted.new:
        runs = ", ".join(documents.short(run) for run in emitted.woken)
        out.say(f"Emitted {emitted.event.name}; {runs or 'no run'} goes on.")
    else:
        at = plain(emitted.event.emitted_at)
        out.say(f"An event {emitted.event.name} with this key came at {at}; it stands.")


def event_document(emitted: events.Emitted) -> dict[str, Any]:
    event = emitted.event
    return {
        "name": event.name,
        "key": event.key or "",
        "payload": event.payload,
        "emitted_at": stamp(event.emitted_at),
        "new": emitted.new,
        "woken": [str(run) for run in emitted.woken],
    }
