"""`wf apply`, `export`, `list`, `slots`: workflows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from workflows import authoring, documents, plan, why
from workflows.cli import acting, values
from workflows.cli.commands import Commands, Options
from workflows.cli.moments import ago, minute
from workflows.cli.output import Out, Refusal, state
from workflows.exceptions import BadWorkflow
from workflows.models import Workflow


def add(commands: Commands) -> None:
    apply_ = commands.add(
        "apply", apply, help="create or update a workflow from YAML or JSON"
    )
    apply_.add_argument(
        "file",
        metavar="FILE",
        help="the file, or - for stdin; its fields: docs/recipes.md",
    )
    export_ = commands.add("export", export, help="print a workflow's file")
    export_.add_argument("slug", metavar="SLUG")
    commands.add("list", list_, help="list the workflows")
    slots_ = commands.add("slots", slots, help="show a schedule's next and last slots")
    slots_.add_argument("slug", metavar="SLUG")
    slots_.add_argument("--next", metavar="N", default="5", help="0 to 100, default 5")
    slots_.add_argument(
        "--last", metavar="N", default="10", help="0 to 100, default 10"
    )


def apply(out: Out, options: Options) -> None:
    who = acting.actor(house=options["house"], as_=options["as_"])
    who.needs("author")
    name = options["file"]
    words = values.content(name, where="file")
    try:
        saved = authoring.save_workflow(who.house, plan.load_file(words))
    except (BadWorkflow, plan.Refused) as error:
        raise Refusal(f"{name} is refused; nothing was changed.\n{error}") from None
    workflow = saved.workflow
    if out.as_json:
        line = {"slug": workflow.slug, "house": who.house.slug, "new": saved.new}
        out.document({**line, "changes": saved.changes, "revision": workflow.revision})
    elif saved.new:
        out.say(f"Created {workflow.slug} with {len(workflow.steps)} steps.")
    elif saved.changes:
        out.say(f"Updated {workflow.slug}:")
        for change in saved.changes:
            out.say(f"  {change}")
    else:
        out.say(f"{workflow.slug} is as the file says; nothing changed.")


def export(out: Out, options: Options) -> None:
    who = acting.actor(house=options["house"], as_=options["as_"])
    words = authoring.export_workflow(acting.workflow(who, options["slug"]))
    if out.as_json:
        out.document(plan.load_file(words))
    else:
        out.write(words)


def list_(out: Out, options: Options) -> None:
    who = acting.actor(house=options["house"], as_=options["as_"])
    found = documents.workflows(who.user, house=who.house)
    if out.as_json:
        out.document(found)
        return
    if not found:
        out.say("No workflows yet. `wf apply FILE` makes one.")
        return
    now = why.now()
    out.table(
        ["WORKFLOW", "NEXT SLOT", "LAST RUN", "", "SCHEDULE"],
        [row(line, now=now) for line in found],
    )


def row(line: dict[str, Any], *, now: Any) -> list[Any]:
    last = line["last_run"]
    when = "paused" if line["paused"] else ago(line["next_slot_at"], now=now)
    return [
        line["slug"],
        when,
        state(last["state"]) if last else "–",
        ago(last["created_at"], now=now) if last else "",
        line["schedule"] or "on demand",
    ]


def answer(out: Out, who: acting.Actor, slug: str, words: str) -> None:
    """Say it, or return the workflow as `wf list --json` does."""
    if out.as_json:
        lines = documents.workflows(who.user, house=who.house)
        out.document(next(line for line in lines if line["slug"] == slug))
    else:
        out.say(words)


def slots(out: Out, options: Options) -> None:
    who = acting.actor(house=options["house"], as_=options["as_"])
    ahead = values.count(options["next"], where="--next", least=0, most=100)
    back = values.count(options["last"], where="--last", least=0, most=100)
    workflow = acting.workflow(who, options["slug"])
    ledger = documents.slots(workflow, next=ahead, last=back)
    if out.as_json:
        out.document(ledger)
        return
    if not workflow.schedule:
        out.notice(f"{workflow.slug} has no schedule.")
    elif workflow.paused:
        out.notice(
            f"{workflow.slug} is paused: its slots are skipped until it resumes."
        )
    now = why.now()
    lines = [
        [minute(slot["slot"]), "next", "", coming(slot, workflow, now=now)]
        for slot in ledger["next"]
    ]
    lines += [
        [
            minute(slot["slot"]),
            slot["outcome"],
            (slot["run"] or "")[-8:],
            slot["reason"] or "",
        ]
        for slot in ledger["last"]
    ]
    out.table(["SLOT", "OUTCOME", "RUN", "REASON"], lines)


def coming(slot: dict[str, Any], workflow: Workflow, *, now: datetime) -> str:
    """Say how far ahead a slot is, and what becomes of it in a paused workflow."""
    ahead = ago(slot["slot"], now=now)
    return f"{ahead}: skipped if still paused then" if workflow.paused else ahead
