"""One query from its beginning to its end, in a thread that another may cut short."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, BinaryIO

from sqlalchemy import Connection, CursorResult, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from threads import phrases, statements
from threads.runtime.queries import masks, wording
from threads.runtime.queries.binding import Bound, bind
from threads.runtime.queries.doors import Door
from threads.runtime.queries.mysql import MySQL
from threads.runtime.queries.order import Order, QueryFailed, Rows
from threads.runtime.queries.postgres import Postgres
from threads.runtime.queries.sheet import Sheet
from threads.runtime.queries.sqlite import SQLite

DOORS: dict[str, tuple[type[Door], str]] = {
    "postgres": (Postgres, "postgresql+psycopg"),
    "postgresql": (Postgres, "postgresql+psycopg"),
    "postgresql+psycopg": (Postgres, "postgresql+psycopg"),
    "mysql": (MySQL, "mysql+pymysql"),
    "mysql+pymysql": (MySQL, "mysql+pymysql"),
    "mariadb": (MySQL, "mariadb+pymysql"),
    "mariadb+pymysql": (MySQL, "mariadb+pymysql"),
    "sqlite": (SQLite, "sqlite"),
    "sqlite+pysqlite": (SQLite, "sqlite"),
}
OURS = ("postgres", "mysql", "mariadb", "sqlite")  # never by a driver that is unknown
BATCH_BYTES = 1_000_000  # about so much is asked for at a time
FIRST, MOST = 10, 2_000  # rows


class Reading:
    """Reads under the order's caps; `stop` cuts it short from another thread."""

    def __init__(self, order: Order, file: BinaryIO | None) -> None:
        self.order, self.file = order, file
        self.hidden = masks.secrets(order.url)
        self.connection: Connection | None = None
        self.door: Door | None = None
        self.result: CursorResult[Any] | None = None
        self.began = time.monotonic()

    def read(self) -> Rows:
        """Return the rows; raise QueryFailed, whose words hold no secret."""
        try:
            return self.read_on()
        except (QueryFailed, SQLAlchemyError) as error:
            if wording.late(error):
                raise self.order.too_late() from None
            raise wording.failed(error, self.hidden) from None
        except Exception as error:  # noqa: BLE001  a driver's own, whatever it is
            raise wording.failed(error, self.hidden) from None
        finally:
            self.leave()

    def read_on(self) -> Rows:
        door = self.door = self.enter()
        statement = parsed(self.order.sql, door.family)
        door.refuse(statement)
        engine = door.engine()
        bound = bind(
            statement,
            self.order.params,
            style=engine.dialect.paramstyle,
            lists=door.lists,
        )
        self.connection = engine.connect()
        connection = door.begin(self.connection)
        streams = connection.execution_options(stream_results=door.streams(statement))
        self.result = execute(streams, bound)
        return self.keep(self.result)

    def enter(self) -> Door:
        """Return the door the address leads to."""
        try:
            url = make_url(self.order.url)
        except (ArgumentError, ValueError):
            raise QueryFailed(phrases.QUERY_ADDRESS, final=True) from None
        known = DOORS.get(url.drivername)
        if known is None and url.drivername.partition("+")[0] in (*OURS, "postgresql"):
            reason = phrases.QUERY_DRIVER.format(name=url.drivername)
            raise QueryFailed(reason, final=True)
        door, driver = known or (Door, url.drivername)
        return door(url.set(drivername=driver), self.order)

    def keep(self, result: CursorResult[Any]) -> Rows:
        if not result.returns_rows:
            raise QueryFailed(phrases.QUERY_NO_ROWS, final=True)
        names = [column[0] for column in result.cursor.description]
        sheet = Sheet(names, self.order.caps, self.file)
        whole = fill(sheet, result.fetchmany)
        return Rows(
            columns=sheet.columns,
            rows=tuple(sheet.rows),
            left_out=sheet.left_out,
            cut=sheet.cut,
            whole=whole,
            file_rows=sheet.file_rows,
            seconds=round(time.monotonic() - self.began, 3),
        )

    def leave(self) -> None:
        """Hang up, whatever is still unread."""
        if self.door is None or self.connection is None:
            return
        with contextlib.suppress(Exception):
            self.door.let_be(self.connection)
        if self.result is not None:
            with contextlib.suppress(Exception):
                self.result.close()
        with contextlib.suppress(Exception):
            self.connection.invalidate()

    def stop(self) -> None:
        """Ask the database to end the query; from another thread, and in vain at worst."""
        if self.door is not None and self.connection is not None:
            with contextlib.suppress(Exception):
                self.door.cancel(self.connection)


def parsed(sql: str, family: str) -> statements.Statement:
    try:
        return statements.read(sql, family)
    except statements.NotOne as error:
        raise QueryFailed(f"sql {error}", final=True) from None


def execute(connection: Connection, bound: Bound) -> CursorResult[Any]:
    sql, values = bound
    return connection.exec_driver_sql(sql, values)


def fill(sheet: Sheet, fetch: Callable[[int], Any]) -> bool:
    """Take rows until there are none or none would be kept; True where all were read.

    How many are asked for follows from how large they are, so that memory does not.
    """
    size = FIRST
    while sheet.wants_more():
        before = sheet.weight
        rows = fetch(size)
        if not rows:
            return True
        for row in rows:
            sheet.add(row)
            if not sheet.wants_more():
                return False
        each = max((sheet.weight - before) // len(rows), 1)
        size = max(1, min(MOST, size * 4, BATCH_BYTES // each))
    return False
