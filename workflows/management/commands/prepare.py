from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from workflows import demo, setup
from workflows.demo import cases


class Command(BaseCommand):
    help = (
        "Make the first house, its owner and the demo; print a one-time sign-in path."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--no-demo", action="store_true", help="leave out the demo workflows"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        house, owner = setup.open_home()
        if not options["no_demo"]:
            demo.install(house)
            cases.install(house)
        self.stdout.write(setup.sign_in_path(owner))
