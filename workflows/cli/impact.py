"""`wf impact`: what is in flight that this code could not finish."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from threads import access as thread_access
from workflows import impact
from workflows.cli import acting
from workflows.cli.commands import Commands, Options
from workflows.cli.output import Out, safe

WHAT = {"kind": "step kind", "function": "function", "runtime": "bot runtime"}


def add(commands: Commands) -> None:
    commands.add(
        "impact",
        tell,
        help="runs in flight and workflows that need what this code lacks; "
        "exit status 1 where there is any",
    )


def tell(out: Out, options: Options) -> int:
    """Look through every house, or the one named, or those of the person named."""
    houses = acting.houses()
    if options["as_"]:
        who = acting.actor(house=options["house"], as_=options["as_"])
        houses = thread_access.houses(who.user)
    if options["house"]:
        houses = houses.filter(pk=acting.find_house(options["house"]).pk)
    found = impact.report(houses)
    lacking = any(found.values())
    if out.as_json:
        out.document(found)
    elif lacking:
        show(out, found)
    else:
        out.say("Nothing in flight needs what this code lacks.")
    return int(lacking)


def show(out: Out, found: dict[str, Any]) -> None:
    for line in found["runs"]:
        states = ", ".join(f"{n} {state}" for state, n in line["states"].items())
        out.say(Text(safe(f"{about(line)}: {states}").plain, style="bold red"))
        for run in line["runs"]:
            at = f"at {run['step']}" if run["step"] else "at its end"
            out.say(safe(f"  {run['id'][-8:]}  {run['state']}  {at}"))
        if line["count"] > len(line["runs"]):
            out.say(f"  … and {line['count'] - len(line['runs'])} more")
    for line in found["workflows"]:
        steps = ", ".join(line["steps"])
        out.say(safe(f"{about(line)}: its steps as they read now, {steps}"))
    for line in found["jobs"]:
        out.say(safe(f"{line['count']} jobs of the unknown type “{line['type']}”"))


def about(line: dict[str, Any]) -> str:
    where = f"{line['house']}/{line['workflow']}"
    return f"{where} needs the {WHAT[line['what']]} “{line['name']}”"
