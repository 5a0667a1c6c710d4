from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from project.embedded.play import Play, PlayFailed


class Command(BaseCommand):
    help = "Play the nightly check to its end, killing every worker three times."

    def handle(self, *args: Any, **options: Any) -> None:
        data = Path(tempfile.mkdtemp(prefix="threadwork-demo-"))
        data.chmod(0o755)  # the servers' account has to reach its own folders in it
        try:
            Play(data=data, say=self.stdout.write).perform()
        except PlayFailed as error:
            raise CommandError(f"The demo failed: {error}\nKept: {data}") from error
        shutil.rmtree(data, ignore_errors=True)
