"""SQLite: a file of an allowed folder, opened for reading, and nothing beside it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from sqlalchemy import Connection

from threads import phrases
from threads.runtime.queries.doors import Door, driver_of
from threads.runtime.queries.order import QueryFailed

LONGEST = 100_000_000  # bytes of one value
LOCK_SECONDS = 5.0
# Asked at each step of a statement's making; what is not named here is refused.
ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_RECURSIVE,
}
BARRED_FUNCTIONS = {"load_extension", "fts3_tokenizer", "writefile", "edit"}
PRAGMAS = {
    *("table_info", "table_xinfo", "table_list", "index_list", "index_info"),
    *("index_xinfo", "foreign_key_list", "compile_options", "function_list"),
    "data_version",
}
SCHEMAS = {"sqlite_master", "sqlite_schema"}


class SQLite(Door):
    family = "sqlite"
    reads = frozenset({"select", "with", "values", "explain"})
    bars: ClassVar[frozenset[str]] = frozenset()  # the authorizer sees to it
    options: ClassVar[frozenset[str] | None] = frozenset()

    def arguments(self) -> Mapping[str, Any]:
        place = self.place()
        return {"creator": lambda: opened(place)}

    def place(self) -> str:
        """Return the file as SQLite is given it; raise QueryFailed for another's."""
        name = self.url.database or ""
        if name in {"", ":memory:"}:
            return ":memory:"
        real = Path(name).resolve()
        for folder in self.order.folders:
            if Path(folder).resolve() in real.parents:
                break
        else:
            raise QueryFailed(phrases.QUERY_FOLDERS, final=True)
        if not real.is_file():
            raise QueryFailed(phrases.QUERY_NO_FILE.format(name=real.name))
        return f"file:{quote(str(real))}?mode=ro"

    def begin(self, connection: Connection) -> Connection:
        driver_of(connection).set_authorizer(allowed)
        return connection

    def cancel(self, connection: Connection) -> None:
        driver_of(connection).interrupt()


def opened(place: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        place, uri=True, timeout=LOCK_SECONDS, check_same_thread=False
    )
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
    for pragma in ("query_only = 1", "trusted_schema = 0", "cell_size_check = 1"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def allowed(
    action: int, first: str | None, second: str | None, database: str | None, by: Any
) -> int:
    """Say whether a statement may do this; asked while it is made ready."""
    known = action in ALLOWED
    if action == sqlite3.SQLITE_FUNCTION:
        known = (second or "").lower() not in BARRED_FUNCTIONS
    elif action == sqlite3.SQLITE_PRAGMA:
        known = (first or "").lower() in PRAGMAS
    elif action == sqlite3.SQLITE_UPDATE:
        # What a table-valued function asks for when it is first named, json_each for
        # one; a table itself cannot be written through a file opened to read.
        known = first in SCHEMAS
    elif action == sqlite3.SQLITE_TRANSACTION:
        known = True
    return sqlite3.SQLITE_OK if known else sqlite3.SQLITE_DENY
