"""MySQL and MariaDB by PyMySQL: a read-only transaction, values as they are written."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, ClassVar

from pymysql import converters
from pymysql.constants import FIELD_TYPE
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from threads import phrases
from threads.runtime.queries.doors import CONNECT_SECONDS, READS, Door, driver_of
from threads.runtime.queries.order import QueryFailed
from threads.runtime.queries.values import iso, read_json
from threads.statements import Statement

# Its transactions keep statements from writing tables, not from writing files.
BARS = frozenset({"outfile", "dumpfile", "load_file"})
LIMITS = (
    "SET SESSION max_execution_time = {milliseconds}",  # MySQL
    "SET SESSION max_statement_time = {seconds}",  # MariaDB
)


def bits(value: Any) -> Any:
    return int.from_bytes(value, "big") if isinstance(value, bytes) else value


CONVERSIONS: dict[Any, Any] = {
    **converters.conversions,
    FIELD_TYPE.DATE: iso,
    FIELD_TYPE.NEWDATE: iso,
    FIELD_TYPE.DATETIME: iso,
    FIELD_TYPE.TIMESTAMP: iso,
    FIELD_TYPE.TIME: str,  # a span of up to 838 hours, or a time of day
    FIELD_TYPE.BIT: bits,
    FIELD_TYPE.JSON: read_json,
}


class MySQL(Door):
    family = "mysql"
    reads = READS | {"desc"}
    bars: ClassVar[frozenset[str]] = BARS
    options = frozenset(
        (
            *("charset", "connect_timeout", "unix_socket", "ssl_ca", "ssl_cert"),
            *(
                "ssl_key",
                "ssl_verify_cert",
                "ssl_verify_identity",
                "ssl_check_hostname",
            ),
        )
    )

    def arguments(self) -> Mapping[str, Any]:
        mine = {"charset": "utf8mb4", "connect_timeout": CONNECT_SECONDS}
        return {
            "connect_args": {
                "conv": CONVERSIONS,
                "local_infile": False,  # a server could ask for any file of ours
                "program_name": "threadwork query",
                "read_timeout": self.order.seconds + CONNECT_SECONDS,
            }
            | {key: word for key, word in mine.items() if key not in self.url.query}
        }

    def refuse(self, statement: Statement) -> None:
        super().refuse(statement)
        for piece in statement.pieces:
            # A comment only to others: MySQL runs what stands in it.
            if piece.kind == "hidden" and piece.text.startswith(("/*!", "/*M!")):
                raise QueryFailed(phrases.QUERY_BARRED.format(word="/*!"), final=True)

    def begin(self, connection: Connection) -> Connection:
        limits = {
            "milliseconds": max(int(self.order.seconds * 1000), 1),
            "seconds": self.order.seconds,
        }
        for limit in LIMITS:
            with contextlib.suppress(DBAPIError):  # each knows one of them
                connection.exec_driver_sql(limit.format(**limits))
        connection.exec_driver_sql("SET SESSION time_zone = '+00:00'")
        connection.exec_driver_sql("START TRANSACTION READ ONLY")
        return connection

    def cancel(self, connection: Connection) -> None:
        number = int(driver_of(connection).thread_id())
        with connection.engine.connect() as another:
            another.exec_driver_sql(f"KILL QUERY {number}")

    def let_be(self, connection: Connection) -> None:
        # Its driver reads an answer to the end before it closes, a billion rows too.
        unread = driver_of(connection)._result  # noqa: SLF001  nothing else says so
        if unread is not None:
            unread.unbuffered_active = False
