"""What a bot can do. A tool never raises for the bot's mistakes: it answers them."""

from __future__ import annotations

from typing import Any

from threads.models import Turn
from threads.runtime import commands
from threads.runtime.watch import Watch


def use(
    turn: Turn, tool: str, args: dict[str, Any], *, number: int, watch: Watch
) -> dict[str, Any] | None:
    """Use a tool and return its result; None where the work was interrupted."""
    if tool != "run_command":
        return {"ok": False, "text": f"There is no tool called “{tool}”."}
    script = args.get("command")
    if not isinstance(script, str) or not script.strip():
        return {"ok": False, "text": "run_command needs a command."}
    try:
        result = commands.run(turn, script, watch=watch, call=number)
    except commands.Refused as error:
        return {"ok": False, "text": str(error)}
    except commands.Interrupted:
        return {"ok": False, "text": "It was interrupted and is not run again."}
    if result.interrupted or result.cancelled:
        return None
    return {
        "ok": result.exit_code == 0,
        "exit_code": result.exit_code,
        "text": result.output,
    }
