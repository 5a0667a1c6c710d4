from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from project.embedded import supervisor
from project.embedded.door import PortTaken
from project.embedded.folder import FolderBusy
from project.embedded.supervisor import NotStarted, Options


class Command(BaseCommand):
    help = "Start everything on this machine: servers, migrations, every role."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--data",
            type=Path,
            help="folder that holds everything (default: .threadwork beside manage.py)",
        )
        parser.add_argument(
            "--port", type=port, default=8000, help="0 picks a free one"
        )
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument(
            "--no-demo", action="store_true", help="leave out the demo workflows"
        )
        parser.add_argument(
            "--quiet", action="store_true", help="say the address and trouble only"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        # manage.py has made --data the folder of the settings already.
        chosen = Options(
            folder=settings.DATA_DIR.resolve(),
            host=options["host"],
            port=options["port"],
            demo=not options["no_demo"],
            quiet=options["quiet"],
        )
        try:
            supervisor.run(chosen)
        except (FolderBusy, PortTaken, NotStarted) as refusal:
            raise CommandError(str(refusal)) from None
        except PermissionError as error:
            raise CommandError(f"Cannot use {chosen.folder}: {error}") from None


def port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65_535:
        raise ValueError
    return number
