"""How each family of databases is opened for reading, and how a query there is ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sqlalchemy import URL, Connection, Engine, create_engine
from sqlalchemy.pool import NullPool

from threads import phrases
from threads.runtime.queries.order import Order, QueryFailed
from threads.statements import Statement

READS = frozenset({"select", "with", "values", "table", "show", "explain", "describe"})
# Where a database itself keeps nobody from writing, none of these may stand anywhere.
WRITES = frozenset(
    (
        *("insert", "update", "delete", "merge", "replace", "upsert", "truncate"),
        *("into", "create", "alter", "drop", "grant", "revoke", "exec", "execute"),
        *("call", "do", "begin", "commit", "rollback", "set", "use", "lock", "attach"),
        *("copy", "export", "import", "load", "install", "pragma", "vacuum"),
    )
)
CONNECT_SECONDS = 10


class Door:
    """A family of which nothing is known but that SQLAlchemy reaches it."""

    family: ClassVar[str] = ""
    lists: ClassVar[bool] = False  # whether its driver takes lists as values
    reads: ClassVar[frozenset[str]] = READS
    bars: ClassVar[frozenset[str]] = WRITES  # words that no statement may hold
    # Of an address's options the ones that cannot lead elsewhere; None: all of them.
    options: ClassVar[frozenset[str] | None] = None

    def __init__(self, url: URL, order: Order) -> None:
        self.url, self.order = url, order

    def engine(self) -> Engine:
        """Return the way in; raise QueryFailed for an address that is refused."""
        if self.options is not None:
            for name in self.url.query:
                if name not in self.options:
                    reason = phrases.QUERY_OPTION.format(name=name)
                    raise QueryFailed(reason, final=True)
        # No word of a value in an error, and no connection that outlives its query.
        return create_engine(
            self.url, poolclass=NullPool, hide_parameters=True, **self.arguments()
        )

    def arguments(self) -> Mapping[str, Any]:
        return {}

    def refuse(self, statement: Statement) -> None:
        """Refuse what cannot be a plain read, before the database is asked."""
        words = statement.words
        if not words or words[0] not in self.reads:
            first = words[0].upper() if words else ""
            raise QueryFailed(phrases.QUERY_READS.format(word=first), final=True)
        if found := sorted(self.bars.intersection(words)):
            reason = phrases.QUERY_BARRED.format(word=found[0].upper())
            raise QueryFailed(reason, final=True)

    def begin(self, connection: Connection) -> Connection:
        """Begin to read, with the limits the database itself can keep."""
        return connection

    def streams(self, statement: Statement) -> bool:
        """Whether the driver is asked to hand over the rows as they come."""
        return True

    def cancel(self, connection: Connection) -> None:
        """Ask the database to end what runs; from another thread."""

    def let_be(self, connection: Connection) -> None:
        """Forget what is still unread, so that hanging up does not read it."""


def driver_of(connection: Connection) -> Any:
    """Return the driver's own connection."""
    return connection.connection.driver_connection
