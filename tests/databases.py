"""Databases that are not ours, for queries: a Postgres beside ours, a MariaDB if there is one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pymysql
from sqlalchemy import make_url

from project.embedded.waiting import until

PASSWORD = "s3cret-w0rd"
MARIADB = shutil.which("mariadbd")


@dataclass(frozen=True)
class Own:
    """The server that houses live on, as a query's process is told of it."""

    server: str
    database: str


def shop(url: str) -> tuple[str, Own]:
    """Make a database and a reader on the server; return the reader's address."""
    plain = make_url(url)
    with psycopg.connect(url, autocommit=True) as session:
        row = session.execute(
            "SELECT system_identifier::text, current_database() FROM pg_control_system()"
        ).fetchone()
        assert row is not None
        with contextlib.suppress(psycopg.errors.DuplicateObject):
            session.execute(
                "CREATE ROLE reader LOGIN PASSWORD 's3cret-w0rd' IN ROLE pg_read_all_data"
            )
        with contextlib.suppress(psycopg.errors.DuplicateDatabase):
            session.execute("CREATE DATABASE shop")
    there = plain.set(username="reader", password=PASSWORD, database="shop")
    return there.render_as_string(hide_password=False), Own(*row)


def as_owner(url: str, database: str = "shop") -> str:
    """Return the address of a database on the server for whoever owns the server."""
    return make_url(url).set(database=database).render_as_string(hide_password=False)


@contextlib.contextmanager
def mariadb() -> Iterator[tuple[str, Any]]:
    """Start a MariaDB of its own; yield a reader's address and its owner's session."""
    assert MARIADB is not None
    base = Path(tempfile.mkdtemp(prefix="threadwork-mariadb-"))
    data, door = base / "data", base / "door"
    user = ["--user=root"] if os.geteuid() == 0 else []
    subprocess.run(
        [
            *("mariadb-install-db", "--no-defaults", f"--datadir={data}", *user),
            *("--auth-root-authentication-method=normal", "--skip-test-db"),
        ],
        check=True,
        capture_output=True,
    )
    with (base / "log").open("w") as log:
        server = subprocess.Popen(
            [
                *(MARIADB, "--no-defaults", f"--datadir={data}", f"--socket={door}"),
                *(*user, "--skip-networking", "--skip-log-bin"),
                "--innodb-buffer-pool-size=8M",
            ],
            stderr=log,
        )
    try:
        assert until(door.exists, seconds=30), (base / "log").read_text()
        owner = pymysql.connect(unix_socket=str(door), user="root", autocommit=True)
        with owner.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
            cursor.execute(f"CREATE USER reader@localhost IDENTIFIED BY '{PASSWORD}'")
            # More than it should have: what keeps it from writing is the query itself.
            cursor.execute("GRANT ALL ON *.* TO reader@localhost")
            cursor.execute("USE shop")
        yield f"mysql://reader:{PASSWORD}@localhost/shop?unix_socket={door}", owner
        owner.close()
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(base, ignore_errors=True)
