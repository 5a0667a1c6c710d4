from __future__ import annotations

import signal
from typing import Any

from django.core.management.base import BaseCommand

from project import roles
from workflows.engine.conductor import Conductor


class Command(BaseCommand):
    help = "Wake what is due, notice dead workers, top up tickets. Executes no work."

    def handle(self, *args: Any, **options: Any) -> None:
        roles.require_servers("conductor")
        conductor = Conductor()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, conductor.stop)
        conductor.run()
