"""The tool `run_command`: a script in the run's workspace, in the sandbox."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from threads import phrases
from threads.models import Turn
from threads.runtime import commands
from threads.runtime.tools.protocol import Args, Handler
from threads.runtime.watch import Watch


class RunCommand(Args):
    command: Annotated[
        str,
        Field(
            min_length=1, pattern=r"\S", description="A script for /bin/sh -c, whole."
        ),
    ]


def use(
    turn: Turn, args: RunCommand, *, number: int, watch: Watch
) -> dict[str, Any] | None:
    try:
        result = commands.run(turn, args.command, watch=watch, call=number)
    except commands.Refused as error:
        return {"ok": False, "text": str(error)}
    except commands.Interrupted:
        return {"ok": False, "text": phrases.TOOL_CUT}
    if result.interrupted or result.cancelled:
        return None
    text = result.output
    if result.timed_out:
        text = f"{text}\n{phrases.TOOL_TIMED_OUT}".lstrip("\n")
    return {"ok": result.exit_code == 0, "exit_code": result.exit_code, "text": text}


handler = Handler(
    "run_command",
    "Run a shell script in the run's workspace, in a sandbox, and read what it prints. "
    "Each call begins in the same folder; files stay, processes do not. Nobody is there "
    "to answer a prompt, and there is no network unless the step has one.",
    RunCommand,
    use,
)
