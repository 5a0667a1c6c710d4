"""What went wrong with a query, in words that hold no address and no password."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    NoSuchModuleError,
    NotSupportedError,
    ProgrammingError,
    StatementError,
)

from threads import phrases, text
from threads.runtime.queries.masks import masked
from threads.runtime.queries.order import QueryFailed

LENGTH = 600
FINAL = (ProgrammingError, DataError, NotSupportedError)  # another try is idle
# Values that no driver takes, and what SQLite and MySQL call operational and is a fault
# of the statement.
MISFITS = (OverflowError, TypeError, ValueError)
PASSING_SQLITE = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_CANTOPEN")
# Classes of Postgres that pass: connection, rollback, resources, operator, system.
PASSING_POSTGRES = ("08", "40", "53", "55", "57", "58", "XX", "28")
FINAL_MYSQL = {1054, 1142, 1143, 1227, 1305, 1318, 1370}
READ_ONLY = {"25006", 1792, 1290}  # how Postgres and MySQL say it
TOO_LATE = {"57014", 3024, 1969, 1317}


def failed(error: BaseException, hidden: tuple[str, ...]) -> QueryFailed:
    """Return any fault of a query as its failure."""
    if isinstance(error, QueryFailed):
        return QueryFailed(masked(str(error), hidden), final=error.final)
    if isinstance(error, MemoryError):
        return QueryFailed(phrases.QUERY_MEMORY)
    if isinstance(error, NoSuchModuleError | ModuleNotFoundError):
        return QueryFailed(phrases.QUERY_NO_DRIVER, final=True)
    cause = error.orig if isinstance(error, StatementError) else error
    said = text.one_line(masked(said_by(cause or error), hidden), LENGTH)
    code = code_of(cause)
    if code in READ_ONLY or read_only_sqlite(cause):
        return QueryFailed(phrases.QUERY_WRITES.format(reason=said), final=True)
    return QueryFailed(said, final=isinstance(error, FINAL) or hopeless(cause))


def hopeless(error: BaseException | None) -> bool:
    """Whether another try would end the same way, whatever the driver's class says."""
    if isinstance(error, sqlite3.Error):
        name = getattr(error, "sqlite_errorname", None) or "SQLITE_BUSY"
        return not name.startswith(PASSING_SQLITE)
    code = code_of(error)
    if isinstance(code, str):
        return not code.startswith(PASSING_POSTGRES)
    return isinstance(error, MISFITS) or code in FINAL_MYSQL


def late(error: BaseException) -> bool:
    """Whether the database itself ended the query for its time."""
    return isinstance(error, DBAPIError) and code_of(error.orig) in TOO_LATE


def code_of(error: BaseException | None) -> object:
    """Return what the database calls its error: a number, or a state of SQL."""
    first = error.args[0] if error is not None and error.args else None
    return first if isinstance(first, int) else getattr(error, "sqlstate", None)


def read_only_sqlite(error: BaseException | None) -> bool:
    if not isinstance(error, sqlite3.Error):
        return False
    name = getattr(error, "sqlite_errorname", "") or ""
    return name.startswith(("SQLITE_AUTH", "SQLITE_READONLY"))


def said_by(error: BaseException) -> str:
    """Return a driver's words, without the number some put before them."""
    told = getattr(error, "diag", None)
    if told is not None and told.message_primary:
        more = (told.message_detail, told.message_hint)
        return ". ".join(filter(None, (told.message_primary, *more)))
    if len(error.args) == 2 and isinstance(error.args[0], int):
        return str(error.args[1])  # MySQL: (1064, "You have an error …")
    return str(error) or type(error).__name__
