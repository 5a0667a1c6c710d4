"""What a bot can do. A tool never raises for the bot's mistakes: it answers them."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from threads import phrases
from threads.models import Bot, Turn
from threads.runtime.bots.protocol import Tool
from threads.runtime.tools import ask_person, query_database, report, run_command
from threads.runtime.tools.protocol import Handler
from threads.runtime.watch import Watch
from threads.text import one_line

TOOLS: dict[str, Handler] = {
    handler.name: handler
    for handler in (
        run_command.handler,
        query_database.handler,
        ask_person.handler,
        report.handler,
    )
}


def allowed(bot: Bot) -> dict[str, Handler]:
    """Return the tools of a bot: those it lists, or all."""
    wanted = bot.tools or list(TOOLS)
    known = [name for name in wanted if name in TOOLS]
    return {name: TOOLS[name] for name in known if TOOLS[name].offered(bot)}


def definitions(bot: Bot) -> list[Tool]:
    """Return the tools of a bot as its model reads of them."""
    return [
        Tool(name, described(handler, bot), handler.args.model_json_schema())
        for name, handler in allowed(bot).items()
    ]


def described(handler: Handler, bot: Bot) -> str:
    return handler.about(bot) if handler.about else handler.description


def use(
    turn: Turn, tool: str, args: dict[str, Any], *, number: int, watch: Watch
) -> dict[str, Any] | None:
    """Use a tool and return its result; None where the work was interrupted."""
    known = allowed(turn.bot)
    if tool not in known:
        names = ", ".join(known) or phrases.NO_TOOLS
        return failed(phrases.NO_TOOL.format(tool=one_line(tool, 60), names=names))
    handler = known[tool]
    try:
        asked = handler.args.model_validate(args)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        words = phrases.BAD_ARGS.format(tool=tool, place=place, why=first["msg"])
        return failed(words)
    return handler.use(turn, asked, number=number, watch=watch)


def failed(words: str) -> dict[str, Any]:
    return {"ok": False, "text": words}
