"""One command from its options to its exit status; what is refused says why."""

from __future__ import annotations

import argparse

from django.db import DatabaseError, InterfaceError, OperationalError, ProgrammingError

from threads import text
from threads.exceptions import ThreadError
from workflows import plan
from workflows.cli import (
    answers,
    artifacts,
    control,
    impact,
    members,
    recipes,
    runs,
    show,
    values,
    vault,
)
from workflows.cli.commands import Commands, Options, add_common
from workflows.cli.output import Out, Refusal
from workflows.exceptions import WorkflowError

NOUNS = (recipes, runs, show, artifacts, impact, answers, control, vault, members)
REFUSED = (Refusal, ThreadError, WorkflowError, plan.Refused, text.Unclean)
INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, default=None)
    commands = Commands(parser.add_subparsers(metavar="COMMAND", required=True))
    for noun in NOUNS:
        noun.add(commands)


def perform(out: Out, options: Options) -> int:
    """Do what was asked and return the exit status; raise Refusal with the reason."""
    options = {**options, "house": options["house"] or "", "as_": options["as_"] or ""}
    try:
        values.clean(options)
        return options["perform"](out, options) or 0
    except REFUSED as error:
        raise Refusal(str(error)) from error
    except ProgrammingError as error:
        raise Refusal(
            f"The database is not set up for this version ({first_line(error)}). "
            "`manage.py up` sets it up, and so does `manage.py migrate`."
        ) from error
    except (OperationalError, InterfaceError) as error:
        raise Refusal(
            f"The database does not answer ({first_line(error)}). "
            "Is it running? `manage.py up` starts everything."
        ) from error
    except KeyboardInterrupt:
        return INTERRUPTED


def first_line(error: DatabaseError | InterfaceError) -> str:
    return text.one_line(str(error).partition("\n")[0], 200)
