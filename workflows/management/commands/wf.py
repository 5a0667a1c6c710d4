from __future__ import annotations

import contextlib
import os
import sys
from io import TextIOWrapper
from typing import IO, Any, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser

from workflows.cli import perform
from workflows.cli.output import Out, Refusal


def unwritten(error: OSError) -> int:
    """Say that the answer could not be written, where that can still be said."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    with contextlib.suppress(OSError):
        sys.stderr.write(f"The answer could not be written: {error.strerror}.\n")
    return 1


class Command(BaseCommand):
    help = "Workflows and runs from the command line."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        perform.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        self.stderr.style_func = None
        self.stdout.ending = self.stderr.ending = ""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        out = Out(
            stdout=cast("IO[str]", self.stdout),
            stderr=cast("IO[str]", self.stderr),
            as_json=options["json"],
        )
        try:
            status = perform.perform(out, options)
        except Refusal as error:
            if not getattr(self, "_called_from_command_line", False):
                raise CommandError(str(error)) from error
            out.notice(str(error))
            status = 1
        except BrokenPipeError:
            # Whoever read our output has read enough.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = 0
        except OSError as error:
            status = unwritten(error)
        if status:
            sys.exit(status)
