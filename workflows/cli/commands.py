"""The shape every command has: its words, its options, the function that does it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from workflows.cli.output import Out

Options = dict[str, Any]
Perform = Callable[[Out, Options], int | None]


class Commands:
    """The subcommands of `wf`, each with the options they all have."""

    def __init__(self, under: Any) -> None:
        self.under = under
        self.common = argparse.ArgumentParser(add_help=False)
        # No defaults here: they would undo what stands before the subcommand.
        add_common(self.common, default=argparse.SUPPRESS)

    def add(self, name: str, perform: Perform, *, help: str) -> Any:  # noqa: A002  argparse's word
        parser = self.under.add_parser(
            name, parents=[self.common], help=help, description=help
        )
        parser.set_defaults(perform=perform)
        return parser

    def group(self, name: str, *, help: str) -> Commands:  # noqa: A002  argparse's word
        """Open a noun with commands of its own, as `wf secret set`."""
        parser = self.under.add_parser(name, help=help, description=help)
        return Commands(parser.add_subparsers(metavar="COMMAND", required=True))


def add_common(parser: argparse.ArgumentParser, *, default: Any) -> None:
    parser.add_argument(
        "--json",
        action="store_true",
        default=False if default is None else default,
        help="print one JSON document; notices go to stderr",
    )
    parser.add_argument(
        "--house", metavar="H", default=default, help="the house, where there are more"
    )
    parser.add_argument(
        "--as",
        dest="as_",
        metavar="USER",
        default=default,
        help="act as this person (default: the owner of the house)",
    )
