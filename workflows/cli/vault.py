"""`wf secret`: what commands get, and where databases are; nobody reads it."""

from __future__ import annotations

import getpass
import sys

from threads import tenancy
from workflows.cli import acting
from workflows.cli.commands import Commands, Options
from workflows.cli.output import Out, Refusal


def add(commands: Commands) -> None:
    secrets = commands.group(
        "secret", help="values that commands get, and addresses of databases"
    )
    set_ = secrets.add("set", set_secret, help="keep a value, read from stdin")
    set_.add_argument("name", metavar="NAME")
    secrets.add("list", list_secrets, help="list the names")
    remove_ = secrets.add("remove", remove, help="forget a value")
    remove_.add_argument("name", metavar="NAME")


def keeper(options: Options) -> acting.Actor:
    who = acting.actor(house=options["house"], as_=options["as_"])
    who.needs("owner")
    return who


def set_secret(out: Out, options: Options) -> None:
    who, name = keeper(options), options["name"]
    tenancy.set_secret(who.house, name, value())
    if out.as_json:
        out.document({"name": name, "house": who.house.slug})
    else:
        out.say(f"Kept {name}. A step asks for it with {asked(name)}.")


def asked(name: str) -> str:
    """Return how a step says that it wants the secret."""
    if name.startswith(tenancy.DATABASE):
        return f"`kind: query` and `database: {name.removeprefix(tenancy.DATABASE)}`"
    return f"`secrets: [{name}]`"


def value() -> str:
    """Read the value from stdin, without the line end that echo leaves."""
    if sys.stdin.isatty():
        return getpass.getpass("Value: ")
    try:
        raw = sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError:
        raise Refusal("value: is not UTF-8 text") from None
    return raw.removesuffix("\n").removesuffix("\r")


def list_secrets(out: Out, options: Options) -> None:
    names = tenancy.secret_names(keeper(options).house)
    if out.as_json:
        out.document(names)
    elif names:
        for name in names:
            out.say(name)
    else:
        out.notice("No secrets yet. `wf secret set NAME` keeps one, read from stdin.")


def remove(out: Out, options: Options) -> None:
    who, name = keeper(options), options["name"]
    tenancy.remove_secret(who.house, name)
    if out.as_json:
        out.document({"name": name, "house": who.house.slug})
    else:
        out.say(f"Removed {name}.")
