"""The tool `query_database`: one read of a database that the bot may read."""

from __future__ import annotations

import csv
import io
import json
import logging
from pathlib import Path
from typing import Annotated, Any

from django.conf import settings
from pydantic import Field

from threads import phrases, text
from threads.models import Bot, Turn
from threads.runtime import letters, workspace
from threads.runtime.queries import process
from threads.runtime.queries.order import Order, QueryFailed, Rows, opened
from threads.runtime.sandbox import programs
from threads.runtime.sandbox.protocol import Result, SandboxBroken
from threads.runtime.tools.protocol import Args, Handler
from threads.runtime.watch import Watch

logger = logging.getLogger(__name__)

CELL = 1000  # characters of a value that a model reads
START_SECONDS = 60.0


class QueryDatabase(Args):
    database: Annotated[str, Field(description="The name of the database.")]
    sql: Annotated[
        str,
        Field(
            min_length=1,
            max_length=100_000,
            description="One statement that only reads. Values stand in it as :name.",
        ),
    ]
    params: Annotated[
        dict[str, Any], Field(description="The value of each :name in sql.")
    ] = {}


def databases(bot: Bot) -> list[str]:
    """Return the databases a bot may read: those its limits name, and no other."""
    named = (bot.limits or {}).get("databases", [])
    return [name for name in named if isinstance(name, str)]


def offered(bot: Bot) -> bool:
    return bool(databases(bot))


def about(bot: Bot) -> str:
    return phrases.QUERY_TOOL.format(names=", ".join(databases(bot)))


def use(
    turn: Turn, args: QueryDatabase, *, number: int, watch: Watch
) -> dict[str, Any] | None:
    try:
        order = ordered(turn, args)
        answer = answered(turn, order, number=number, watch=watch)
        if answer is None:
            return None
        return {"ok": True, "text": compact(opened(answer))}
    except QueryFailed as error:
        return {"ok": False, "text": str(error)}


def ordered(turn: Turn, args: QueryDatabase) -> Order:
    known = databases(turn.bot)
    if args.database not in known:
        name, names = text.one_line(args.database, 60), ", ".join(known)
        raise QueryFailed(phrases.QUERY_NOT_YOURS.format(name=name, names=names))
    limit = turn.spec.get("timeout") or settings.TURN_SECONDS
    return process.order(
        turn.house_id,
        database=args.database,
        sql=args.sql,
        params=args.params,
        seconds=min(settings.QUERY_SECONDS, limit),
        cell=CELL,
    )


def answered(
    turn: Turn, order: Order, *, number: int, watch: Watch
) -> dict[str, Any] | None:
    """Return what the query's process left; None where the turn itself was stopped.

    An answer that an earlier worker's process left to this call is taken.
    """
    folder = workspace.folder(turn) / "queries" / f"{turn.pk}-{number}"
    answer = letters.read_answer(folder)
    if answer is not None:
        return answer
    program = process.program(
        order,
        folder,
        key=f"{turn.key}:{number}",
        attempt=turn.attempts,
        wait=START_SECONDS,
    )
    try:
        result = programs.run(program, emit=logger.info, stop=watch.stop)
    except SandboxBroken as error:
        raise QueryFailed(str(error)) from error
    return found(folder, result, order)


def found(folder: Path, result: Result, order: Order) -> dict[str, Any] | None:
    answer = letters.read_answer(folder)
    if answer is not None:
        return answer
    if result.timed_out:
        raise order.too_late()
    if result.signal is not None and not (result.cancelled or result.interrupted):
        raise QueryFailed(phrases.KILLED.format(signal=result.signal))
    return None


def compact(rows: Rows) -> str:
    """Return the rows as a model reads them: how many, then as CSV, as many as fit."""
    read = len(rows.rows) + rows.left_out
    more = "" if rows.whole else phrases.QUERY_AND_MORE
    said = phrases.QUERY_ROWS_READ.format(count=f"{read:,}", more=more)
    lines = [said, line(rows.columns)]
    size, shown = sum(map(len, lines)), 0
    for row in rows.rows:
        next_line = line(row.values())
        size += len(next_line)
        if size > settings.OUTPUT_LIMIT:
            break
        lines.append(next_line)
        shown += 1
    if left := read - shown:
        lines.append(phrases.QUERY_NOT_SHOWN.format(count=f"{left:,}"))
    return "\n".join(lines)


def line(cells: Any) -> str:
    into = io.StringIO()
    csv.writer(into, lineterminator="").writerow([words(cell) for cell in cells])
    return text.clean(into.getvalue())


def words(cell: Any) -> str:
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)


handler = Handler(
    "query_database",
    phrases.QUERY_TOOL,
    QueryDatabase,
    use,
    offered=offered,
    about=about,
)
