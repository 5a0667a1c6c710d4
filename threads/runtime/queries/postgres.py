"""Postgres by psycopg: a read-only transaction, a cursor, values as it writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

from psycopg.adapt import Buffer, Loader
from psycopg.types.json import set_json_loads
from sqlalchemy import Connection
from sqlalchemy.exc import ProgrammingError

from threads import phrases
from threads.runtime.queries.doors import CONNECT_SECONDS, Door, driver_of
from threads.runtime.queries.order import QueryFailed
from threads.runtime.queries.values import iso, read_json
from threads.statements import Statement

CANCEL_SECONDS = 3
ANY = 0  # psycopg's name for every type it has no loader for
MOMENTS = ("date", "time", "timetz", "timestamp", "timestamptz", "interval")
AS_WRITTEN = (
    *("text", "varchar", "bpchar", "name", '"char"', "uuid", "inet", "cidr", "record"),
    *("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
    *("int4multirange", "int8multirange", "nummultirange", "datemultirange"),
    *("tsmultirange", "tstzmultirange"),
)
# As one statement, and only what this server has: another that speaks like Postgres may
# lack some of them. All end with the transaction, so that a pooler may stand between.
SETTLE = """
SELECT set_config(s.name, v.value, true)
  FROM jsonb_each_text(%(wanted)s::jsonb) AS v(name, value)
  JOIN pg_catalog.pg_settings s ON lower(s.name) = lower(v.name)
"""
WHOSE = """
SELECT (SELECT system_identifier::text FROM pg_catalog.pg_control_system()),
       pg_catalog.current_database()::text,
       (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = SESSION_USER)
"""
SETTINGS = {
    "default_transaction_read_only": "on",
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "cursor_tuple_fraction": "1",  # all rows are wanted, not the first ones soon
    "client_connection_check_interval": "1000",  # a dead reader's query ends too
}


class Text(Loader):
    """Text, even where the server lets what is no text pass as such."""

    def load(self, data: Buffer) -> Any:
        return bytes(data).decode("utf-8", "replace")


class Moment(Text):
    def load(self, data: Buffer) -> Any:
        return iso(super().load(data))


class Number(Text):
    def load(self, data: Buffer) -> Any:
        return Decimal(super().load(data))


class Postgres(Door):
    family = "postgresql"
    lists = True
    bars: ClassVar[frozenset[str]] = frozenset()  # the transaction sees to it
    options = frozenset(
        (
            *("host", "port", "application_name", "connect_timeout", "channel_binding"),
            *("sslmode", "sslrootcert", "sslnegotiation", "sslsni", "gssencmode"),
            *("target_session_attrs", "load_balance_hosts", "keepalives"),
            *("keepalives_idle", "keepalives_interval", "keepalives_count"),
            "require_auth",
        )
    )

    def arguments(self) -> Mapping[str, Any]:
        mine = {
            "connect_timeout": CONNECT_SECONDS,
            "application_name": "threadwork query",
            "client_encoding": "utf8",
        }
        return {
            "use_native_hstore": False,
            # Each statement is prepared, which admits one statement and no more.
            "connect_args": {"prepare_threshold": 0}
            | {key: word for key, word in mine.items() if key not in self.url.query},
        }

    def begin(self, connection: Connection) -> Connection:
        connection = connection.execution_options(postgresql_readonly=True)
        read_as_written(driver_of(connection))
        self.refuse_our_own(connection)
        limit = max(int(self.order.seconds * 1000), 1)
        wanted = {**SETTINGS, "statement_timeout": f"{limit}"}
        connection.exec_driver_sql(SETTLE, {"wanted": json.dumps(wanted)})
        return connection

    def streams(self, statement: Statement) -> bool:
        # A cursor reads what selects; the rest is a few lines.
        return statement.words[0] not in {"show", "explain"}

    def refuse_our_own(self, connection: Connection) -> None:
        """Refuse the database that houses live in, and whoever may do all beside it."""
        try:
            with connection.begin_nested():
                found = connection.exec_driver_sql(WHOSE).one()
        except ProgrammingError:
            return  # it speaks like Postgres and is another
        server, database, mighty = found
        if server != self.order.own_server:
            return
        if database == self.order.own_database:
            raise QueryFailed(phrases.QUERY_OUR_OWN, final=True)
        if mighty:
            raise QueryFailed(phrases.QUERY_TOO_MIGHTY, final=True)

    def cancel(self, connection: Connection) -> None:
        driver_of(connection).cancel_safe(timeout=CANCEL_SECONDS)


def read_as_written(driver: Any) -> None:
    adapters = driver.adapters
    for name in AS_WRITTEN:
        adapters.register_loader(name, Text)
    for name in MOMENTS:
        adapters.register_loader(name, Moment)
    adapters.register_loader("numeric", Number)
    adapters.register_loader(ANY, Text)
    set_json_loads(read_json, driver)
