"""The `wf` command in this process, as a shell would see it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from workflows.management.commands import wf as door


@dataclass(frozen=True)
class Ended:
    """What a command left: its exit status and its two streams."""

    status: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout; anything else there is an error."""
        return json.loads(self.stdout)


@pytest.fixture
def wf(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ended]:
    def run(*arguments: object, stdin: str | bytes = b"") -> Ended:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
        capsys.readouterr()
        command = door.Command()
        command._called_from_command_line = True  # type: ignore[attr-defined]
        status: Any = 0
        try:
            parser = command.create_parser("manage.py", "wf")
            options = vars(parser.parse_args([str(word) for word in arguments]))
            command.execute(**options)
        except SystemExit as ended:
            status = ended.code
        printed = capsys.readouterr()
        return Ended(status, printed.out, printed.err)

    return run
