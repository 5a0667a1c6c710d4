"""A statement and its values as a driver takes them: nothing is put into the text. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from threads import phrases
from threads.runtime.queries.order import QueryFailed
from threads.statements import Statement

Bound = tuple[str, dict[str, Any] | tuple[Any, ...]]
NAMED: dict[str, Callable[[str], str]] = {
    "named": lambda name: f":{name}",
    "pyformat": lambda name: f"%({name})s",
}
NUMBERED: dict[str, Callable[[int], str]] = {
    "qmark": lambda number: "?",
    "format": lambda number: "%s",
    "numeric": lambda number: f":{number}",
    "numeric_dollar": lambda number: f"${number}",
}
PERCENT = {"pyformat", "format"}  # styles in which a lone % would begin a value


def bind(
    statement: Statement, params: Mapping[str, Any], *, style: str, lists: bool
) -> Bound:
    """Return the text in a driver's style, and the values it names.

    `lists` says that the driver takes lists; else they travel as JSON, as objects do.
    """
    refuse_misfit(statement, params)
    values = {name: carried(value, lists=lists) for name, value in params.items()}
    double = style in PERCENT
    parts: list[str] = []
    order: list[Any] = []
    for piece in statement.pieces:
        if piece.kind != "name":
            parts.append(piece.text.replace("%", "%%") if double else piece.text)
            continue
        order.append(values[piece.text])
        mark = (
            NAMED[style](piece.text) if style in NAMED else NUMBERED[style](len(order))
        )
        parts.append(mark)
    return "".join(parts), values if style in NAMED else tuple(order)


def refuse_misfit(statement: Statement, params: Mapping[str, Any]) -> None:
    named = set(statement.names)
    if missing := sorted(named - set(params)):
        reason = phrases.QUERY_NEEDS.format(name=missing[0])
        raise QueryFailed(reason, final=True)
    if idle := sorted(set(params) - named):
        reason = phrases.QUERY_IDLE.format(name=idle[0])
        raise QueryFailed(reason, final=True)


def carried(value: Any, *, lists: bool) -> Any:
    if isinstance(value, dict) or (isinstance(value, list) and not lists):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return [carried(item, lists=lists) for item in value]
    return value
