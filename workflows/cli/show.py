"""`wf show`: one run, with its steps, attempts, events and thread."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from rich.text import Text

from threads import text
from workflows import documents, phrases, templating, why
from workflows.cli import acting, values
from workflows.cli.commands import Commands, Options
from workflows.cli.entries import HOW_TO_ANSWER, drawn, progress
from workflows.cli.moments import ago, clock, took
from workflows.cli.output import Out, safe, state
from workflows.cli.runs import watch

MOST = 1_000_000
LIVE = 24  # lines of a step at work
WORD = re.compile(r"\w")


def add(commands: Commands) -> None:
    show_ = commands.add("show", show, help="show a run: steps, attempts, thread")
    show_.add_argument("run", metavar="RUN", help="its id, or the end of it")
    show_.add_argument(
        "--follow", action="store_true", help="go on showing its thread as it grows"
    )
    show_.add_argument(
        "--entries", metavar="N", default="500", help="the last N, or all"
    )


def show(out: Out, options: Options) -> None:
    who = acting.actor(house=options["house"], as_=options["as_"], run=options["run"])
    raw = options["entries"]
    entries = (
        None
        if raw == "all"
        else values.count(raw, where="--entries", least=0, most=MOST)
    )
    run = acting.run(who, options["run"])
    document = documents.run(run, entries=entries)
    if not out.as_json:
        picture(out, document, reason=documents.run_line(run)["reason"])
        if not options["follow"]:
            show_progress(out, document)
    if options["follow"]:
        after = last_number(document) if not out.as_json else 0
        watch(out, run, seconds=None, follow=True, after=after)
        run = acting.fresh(run)
        document = documents.run(run, entries=entries)
        if not out.as_json:
            out.say()
            headline(out, document, reason=documents.run_line(run)["reason"])
    if out.as_json:
        out.document(document)


def last_number(document: dict[str, Any]) -> int:
    entries = document["thread"]["entries"]
    left: int = document["thread"]["entries_left"]
    return int(entries[-1]["number"]) if entries else left


def picture(out: Out, document: dict[str, Any], *, reason: str) -> None:
    now = why.now()
    headline(out, document, reason=reason)
    out.say()
    titles = ["#", "STEP", "KIND", "STATE", "TOOK", "RESULT"]
    out.table(titles, [step_row(step, now=now) for step in document["steps"]])
    if document["attempt_log"]:
        out.say()
        for attempt in document["attempt_log"]:
            out.say(Text(attempt_words(attempt, now=now), style="dim"))
    for event in document["events"]:
        at = clock(event["emitted_at"])
        out.say(Text(f"event {event['name']}, {at}", style="dim"))
    out.say()
    left = document["thread"]["entries_left"]
    if left:
        out.say(Text(f"… {left} earlier entries (--entries all) …", style="dim"))
    for entry in document["thread"]["entries"]:
        out.say(drawn(entry, pretty=out.pretty))


def show_progress(out: Out, document: dict[str, Any]) -> None:
    """Show the end of what the step at work has written so far."""
    for step in document["steps"]:
        for line in (step["progress"] or "").splitlines()[-LIVE:]:
            out.say(progress(line, pretty=out.pretty))


def headline(out: Out, document: dict[str, Any], *, reason: str) -> None:
    now = why.now()
    line = Text.assemble(
        (document["workflow"], "bold"), "  ", state(document["state"]), "  "
    )
    out.say(line + Text(document["id"], style="dim"))
    out.say(safe(", ".join(facts(document, now=now))))
    waits = document["waiting_for"]
    words = waits["words"] if waits else reason[:1].upper() + reason[1:]
    if document["failure"]:
        words = f"Failed at {reason}"
    if words:
        style = "bold red" if document["state"] == "failed" else "bold yellow"
        out.say(Text(safe(words).plain, style=style))
    if waits and waits["kind"] == "gate":
        out.say(Text(HOW_TO_ANSWER.format(run=document["short"]), style="dim"))


def facts(document: dict[str, Any], *, now: datetime) -> list[str]:
    said = [f"{document['trigger']}, started {ago(document['created_at'], now=now)}"]
    if document["finished_at"]:
        spent = took(document["started_at"], document["finished_at"], now=now)
        said.append(f"took {spent}")
    if document["attempts"] > 1:
        said.append(f"{document['attempts']} attempts")
    if document["usage"]:
        said.append(phrases.used(document["usage"]))
    if document["key"]:
        said.append(f"key {document['key']}")
    if document["deadline_at"]:
        said.append(f"to end by {document['deadline_at'][:16].replace('T', ' ')} UTC")
    return [*said, *kin(document)]


def kin(document: dict[str, Any]) -> list[str]:
    """Name the runs this one comes from, and those that come from it."""
    said = []
    if document["parent"]:
        said.append(f"started by run {document['parent'][-8:]}")
    if document["children"]:
        said.append(f"has started {shortened(document['children'])}")
    if document["retry_of"]:
        said.append(f"a retry of {document['retry_of'][-8:]}")
    if document["retries"]:
        later = ", ".join(code[-8:] for code in document["retries"])
        said.append(f"retried as {later}")
    return said


def shortened(codes: list[str]) -> str:
    few = ", ".join(code[-8:] for code in codes[:5])
    return f"{few} and {len(codes) - 5} more" if len(codes) > 5 else few


def step_row(step: dict[str, Any], *, now: datetime) -> list[Any]:
    tries = f", {step['attempts']} attempts" if step["attempts"] > 1 else ""
    spent = took(step["started_at"], step["finished_at"], now=now)
    return [
        step["position"] + 1,
        step["name"] + iteration_words(step),
        step["kind"],
        state(step["state"]) + Text(tries),
        "" if step["state"] == "pending" else spent,
        text.one_line(hand_words(step) or step["error"] or result_words(step), 100),
    ]


def iteration_words(step: dict[str, Any]) -> str:
    """Say which of how many iterations this is; nothing of a step that has one."""
    number, times = step["iteration"], step["times"]
    if times:
        return f" ({number} of {times})" if step["iterations"] else ""
    return f" ({number})" if step["iterations"] > 1 else ""


def hand_words(step: dict[str, Any]) -> str:
    hand = step["by_hand"]
    return f"by hand of {hand['by']}: {hand['reason']}" if hand else ""


def result_words(step: dict[str, Any]) -> str:
    """Say in a few words what a step left: how a bot's answer begins, how output ends."""
    match step["result"]:
        case {"output": str(answer)} if step["kind"] == "dispatch_task":
            return next((line for line in answer.splitlines() if line.strip()), "")
        case {"output": str(output)} if output.strip():
            lines = output.strip().splitlines()
            return next((w for w in reversed(lines) if WORD.search(w)), lines[-1])
        case {"by": str(by), "reply": reply} if by:
            return f"{by}: {reply}" if reply else by
        case {"until": str(until)}:
            return f"until {until[:19].replace('T', ' ')} UTC"
        case {"run": str(run), "state": str(state)}:
            return f"{run[-8:]} {state}"
        case {"event": str(event), "payload": payload}:
            return f"{event}: {templating.as_text(payload)}" if payload else event
        case result:
            return value_words(result)


def value_words(result: Any) -> str:
    """Say in a few words what a call returned, or how much a query read."""
    match result:
        case {"rows": list(rows), "truncated": left}:
            count = f"{len(rows) + left:,}"
            return f"{count} row" if count == "1" else f"{count} rows"
        case {"result": value} if value is not None:
            return templating.as_text(value)
        case _:
            return ""


def attempt_words(attempt: dict[str, Any], *, now: datetime) -> str:
    how = attempt["ended"] or "open"
    spent = took(attempt["began_at"], attempt["ended_at"], now=now)
    return f"attempt {attempt['number']}: {how}, {spent}"
