"""The worker's side of a query: what its process is told, and how it is started."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import ProgrammingError, connection, transaction

from threads import tenancy
from threads.exceptions import NotFound
from threads.runtime import letters
from threads.runtime.queries import masks
from threads.runtime.queries.order import Caps, Order, QueryFailed
from threads.runtime.sandbox import programs
from threads.runtime.sandbox.supervision.launch import ARGS

CHILD = "threads.runtime.queries.child"
LEAVE_SECONDS = 10.0  # beyond its own limit, for a process that does not keep it


def order(
    house: int,
    *,
    database: str,
    sql: str,
    params: Mapping[str, Any],
    seconds: float | None,
    file: int = 0,
    cell: int = 0,
) -> Order:
    """Return the order for a house's own database; raise QueryFailed without one."""
    try:
        url = tenancy.database_address(house, database)
    except NotFound as error:
        raise QueryFailed(str(error), final=True) from None
    server, own = own_database()
    return Order(
        url=url,
        sql=sql,
        params=params,
        seconds=seconds or settings.QUERY_SECONDS,
        caps=Caps(
            rows=settings.QUERY_ROWS,
            cell=cell or settings.QUERY_CELL_LIMIT,
            size=settings.QUERY_RESULT_LIMIT,
            file=file,
        ),
        folders=tuple(settings.QUERY_FOLDERS),
        own_server=server,
        own_database=own,
    )


@lru_cache(maxsize=1)
def own_database() -> tuple[str, str]:
    """Return the server and the name of the database that houses live in."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT system_identifier::text, current_database()::text"
                "  FROM pg_control_system()"
            )
            server, name = cursor.fetchone()
            return server, name
    except ProgrammingError:
        return "", ""  # this server tells nobody which one it is


def program(
    told: Order, folder: Path, *, key: str, attempt: int, wait: float
) -> programs.Program:
    """Return what runs the order; nothing of it is written down or seen from outside."""
    letters.prepare(folder)
    return programs.Program(
        argv=("-m", CHILD, ARGS, str(folder.absolute())),
        cwd=settings.BASE_DIR,
        folder=folder,
        key=key,
        attempt=attempt,
        timeout=told.seconds + LEAVE_SECONDS + wait,
        grace=settings.CANCEL_SECONDS,
        memory=settings.QUERY_MEMORY,
        max_output=settings.OUTPUT_LIMIT,
        sealed=(told.dump(),),
        secrets=masks.secrets(told.url),
    )
