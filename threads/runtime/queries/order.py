"""What a query's process is told, and what it answers. Plain values; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from threads import phrases


class QueryFailed(Exception):
    """The query ended without rows: in words, and whether another try is idle."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        self.final = final
        super().__init__(reason)


@dataclass(frozen=True)
class Caps:
    """How much of what a database answers is kept."""

    rows: int
    cell: int  # characters
    size: int  # bytes of JSON
    file: int  # bytes of CSV; 0 where no file is wanted


@dataclass(frozen=True)
class Order:
    """One query: where, what, with what values, and its limits."""

    url: str
    sql: str
    params: Mapping[str, Any]
    seconds: float
    caps: Caps
    folders: tuple[str, ...] = ()  # whose SQLite files may be read
    own_server: str = ""  # the Postgres that Threadwork itself lives on
    own_database: str = ""

    def dump(self) -> str:
        return json.dumps(asdict(self))

    def too_late(self) -> QueryFailed:
        limit = phrases.seconds(self.seconds)
        return QueryFailed(phrases.QUERY_TOO_LONG.format(limit=limit))

    @classmethod
    def load(cls, raw: str) -> Order:
        told = json.loads(raw)
        caps, folders = Caps(**told.pop("caps")), tuple(told.pop("folders"))
        return cls(**told, caps=caps, folders=folders)


@dataclass(frozen=True)
class Rows:
    """What is kept of an answer."""

    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    left_out: int  # rows read and not kept; one more where reading was stopped
    cut: int  # cells that were shortened
    whole: bool  # whether the database had said all it has
    file_rows: int  # rows in the CSV file
    seconds: float

    def as_answer(self) -> dict[str, Any]:
        return {"result": asdict(self)}


def opened(answer: Mapping[str, Any]) -> Rows:
    """Return what an answer holds; raise QueryFailed for a failure."""
    if "failed" in answer:
        raise QueryFailed(answer["failed"], final=answer["final"])
    told = dict(answer["result"])
    columns, rows = tuple(told.pop("columns")), tuple(told.pop("rows"))
    return Rows(columns=columns, rows=rows, **told)


def as_failure(error: QueryFailed) -> dict[str, Any]:
    return {"failed": str(error), "final": error.final}
