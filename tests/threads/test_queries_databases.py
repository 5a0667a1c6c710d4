"""Queries of real databases: what each keeps from being written, and its own values."""

from __future__ import annotations

import io
import os
import threading
import time
from typing import Any

import psycopg
import pytest

from project.embedded.waiting import until
from tests import databases
from threads.runtime.queries.order import Caps, Order, QueryFailed, Rows
from threads.runtime.queries.reading import Reading

CAPS = Caps(rows=50, cell=1000, size=100_000, file=2_000_000)


@pytest.fixture(scope="module")
def postgres(server):
    url, own = databases.shop(server.url)
    with psycopg.connect(databases.as_owner(server.url), autocommit=True) as session:
        session.execute("CREATE TABLE IF NOT EXISTS orders (id int, item text)")
        session.execute("GRANT ALL ON orders TO reader")
    return url, own, server.url


@pytest.fixture(scope="module")
def mariadb():
    if databases.MARIADB is None and not os.environ.get("REQUIRE_ALL"):
        pytest.skip("there is no mariadbd here: apt install mariadb-server-core")
    with databases.mariadb() as made:
        yield made


def order(url: str, sql: str, params: Any = None, **more: Any) -> Order:
    told = {"params": params or {}, "seconds": 10.0, "caps": CAPS, **more}
    return Order(url=url, sql=sql, **told)


def read(url: str, sql: str, params: Any = None, **more: Any) -> Rows:
    return Reading(order(url, sql, params, **more), io.BytesIO()).read()


def one(url: str, sql: str, params: Any = None) -> Any:
    (row,) = read(url, sql, params).rows
    (value,) = row.values()
    return value


def refused(url: str, sql: str, params: Any = None, **more: Any) -> QueryFailed:
    with pytest.raises(QueryFailed) as failed:
        read(url, sql, params, **more)
    assert databases.PASSWORD not in str(failed.value)
    return failed.value


# Postgres


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("1.50::numeric", "1.50"),
        ("'NaN'::numeric", "NaN"),
        ("'-infinity'::float8", "-Infinity"),
        ("0.1::float8", 0.1),
        ("true", True),
        ("NULL", None),
        ("'2026-12-01'::date", "2026-12-01"),
        ("'infinity'::date", "infinity"),
        ("'0044-03-15 BC'::date", "0044-03-15 BC"),
        ("'06:30'::time", "06:30:00"),
        ("'06:30+02'::timetz", "06:30:00+02"),
        ("'2026-12-01 06:00'::timestamp", "2026-12-01T06:00:00"),
        ("'2026-12-01 06:00+02'::timestamptz", "2026-12-01T04:00:00Z"),
        ("'-infinity'::timestamptz", "-infinity"),
        ("'12345-01-01'::timestamptz", "12345-01-01 00:00:00+00"),
        ("interval '1 mon 2 days 03:04:05'", "P1M2DT3H4M5S"),
        (r"'\x00ff'::bytea", "AP8="),
        ("'00000000-0000-0000-0000-000000000001'::uuid", "00000000-0000-0000-0000-000000000001"),
        ("int4range(1, 5)", "[1,5)"),
        ("'{[1,2),[5,6)}'::int4multirange", "{[1,2),[5,6)}"),
        ("ARRAY[ARRAY[1, NULL], ARRAY[2, 3]]", [[1, None], [2, 3]]),
        ("ARRAY['infinity'::date]", ["infinity"]),
        ("'{1.50}'::numeric[]", ["1.50"]),
        ("'{\"a\": [0.1, 12345678901234567890.5]}'::jsonb", {"a": [0.1, "12345678901234567890.5"]}),
        ("ROW(1, 'a')", "(1,a)"),
        ("'10.0.0.1/8'::inet", "10.0.0.1/8"),
        ("B'101'", "101"),
        ("point(1, 2)", "(1,2)"),
        ("9223372036854775807", 9223372036854775807),
        ("'a'::\"char\"", "a"),
    ],
)  # fmt: skip
def test_a_value_of_postgres_becomes(postgres, sql, kept):
    assert one(postgres[0], f"SELECT {sql} AS x") == kept


@pytest.mark.parametrize(
    ("sql", "value", "kept"),
    [
        ("SELECT :x::int + 1", "5", 6),
        ("SELECT 5 = :x", "5", True),
        ("SELECT '2026-01-01'::date > :x", "2025-01-01", True),
        ("SELECT :x::text", "'; DROP TABLE orders; --", "'; DROP TABLE orders; --"),
        ("SELECT :x::text", "100% %s %(x)s", "100% %s %(x)s"),
        ("SELECT 5 % :x", 3, 2),
        ("SELECT :x::int[]", [1, 2], [1, 2]),
        ("SELECT 'b' = ANY(:x::text[])", ["a", "b"], True),
        ("SELECT :x::jsonb -> 'a'", {"a": [1]}, [1]),
        ("SELECT :x::int IS NULL", None, True),
        ("SELECT :x AND true", True, True),
    ],
)
def test_a_value_is_bound_in_postgres(postgres, sql, value, kept):
    assert one(postgres[0], sql, {"x": value}) == kept


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("INSERT INTO orders VALUES (1)", "begins with “INSERT”"),
        ("COPY orders TO PROGRAM 'id'", "begins with “COPY”"),
        ("SET TRANSACTION READ WRITE", "begins with “SET”"),
        ("WITH x AS (INSERT INTO orders VALUES (1) RETURNING 1) SELECT * FROM x", ""),
        (
            "SELECT set_config('transaction_read_only', 'off', false)",
            "must be set before",
        ),
        ("SELECT lo_create(0)", "read-only transaction"),
        ("SELECT pg_read_file('/etc/passwd')", "permission denied"),
        ("EXPLAIN ANALYZE INSERT INTO orders VALUES (1)", "read-only transaction"),
        ("EXPLAIN SELECT E'a'\n'\\' ' ; DELETE FROM orders; --'", ""),
        ("SELECT 1 INTO made", ""),
        ("SELECT id FROM orders FOR UPDATE", "read-only transaction"),
        ("SELECT 1 / 0", "division by zero"),
        ("SELECT * FROM nowhere", '“nowhere”|"nowhere" does not exist'),
    ],
)
def test_postgres_writes_nothing_and_says_why(postgres, sql, reason):
    failed = refused(postgres[0], sql)

    assert failed.final
    assert any(part in str(failed) for part in reason.split("|"))


def test_the_database_of_the_houses_and_its_owner_are_refused(postgres):
    _, own, server = postgres
    told = {"own_server": own.server, "own_database": own.database}

    assert "Threadwork itself lives in" in str(refused(server, "SELECT 1", **told))
    mighty = refused(databases.as_owner(server), "SELECT 1", **told)
    assert "GRANT pg_read_all_data" in str(mighty)
    assert one(postgres[0], "SELECT 1") == 1


@pytest.mark.parametrize("option", ["passfile=/etc/passwd", "service=x", "options=-cx"])
def test_an_address_leads_to_no_file_of_ours(postgres, option):
    url = f"postgresql://reader@127.0.0.1/shop?{option}"

    assert "has no place in the address" in str(refused(url, "SELECT 1"))


def test_a_billion_rows_are_read_until_the_file_is_full_and_no_further(postgres):
    began = time.monotonic()
    rows = read(postgres[0], "SELECT generate_series(1, 1000000000) AS n")

    assert len(rows.rows) == 50
    assert rows.file_rows > 100_000
    assert rows.left_out >= rows.file_rows - 50
    assert not rows.whole
    assert time.monotonic() - began < 10


def test_rows_of_a_megabyte_are_asked_for_a_few_at_a_time(postgres):
    sql = "SELECT repeat('x', 1000000) FROM generate_series(1, 1000)"
    rows = read(postgres[0], sql)

    assert rows.file_rows == 1
    assert rows.left_out < 50


def test_postgres_ends_what_takes_too_long(postgres):
    failed = refused(postgres[0], "SELECT pg_sleep(30)", seconds=0.5)

    assert (str(failed), failed.final) == ("took longer than 0.5 s", False)


def stopped(url: str, sql: str) -> tuple[float, BaseException]:
    """Begin a query, stop it from another thread; return after how long it ended."""
    reading = Reading(order(url, sql), None)
    faults: list[BaseException] = []

    def go() -> None:
        try:
            reading.read()
        except QueryFailed as error:
            faults.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    assert until(lambda: reading.connection is not None, seconds=5)
    thread.join(0.3)
    began = time.monotonic()
    reading.stop()
    thread.join(10)
    return time.monotonic() - began, faults[0]


def test_stopping_ends_the_query_in_postgres_itself(postgres):
    seconds, _ = stopped(postgres[0], "SELECT pg_sleep(60)")

    assert seconds < 3
    with psycopg.connect(postgres[2]) as session:
        busy = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        assert until(lambda: session.execute(busy).fetchone() == (0,), seconds=5)


def test_what_postgres_says_of_a_wrong_password_has_none_in_it(postgres):
    failed = refused(postgres[0].replace("reader:", "nobody:"), "SELECT 1")

    assert not failed.final


# MariaDB


VALUES = [
    ("CAST(1.50 AS DECIMAL(9,2))", "1.50"),
    ("CAST(1e300 AS DOUBLE)", 1e300),
    ("DATE '2026-12-01'", "2026-12-01"),
    ("TIMESTAMP '2026-12-01 06:00:00.5'", "2026-12-01T06:00:00.5"),
    ("TIME '-26:03:04'", "-26:03:04"),
    ("x'00ff'", "AP8="),
    ("b'101'", "BQ=="),
    ("true", 1),
    ("NULL", None),
    ("18446744073709551615", 18446744073709551615),
    ("concat('a', char(0 using utf8mb4))", "a\ufffd"),
]


@pytest.mark.parametrize(("sql", "kept"), VALUES)
def test_a_value_of_mariadb_becomes(mariadb, sql, kept):
    assert one(mariadb[0], f"SELECT {sql} AS x") == kept


def test_columns_of_mariadb_become(mariadb):
    url, owner = mariadb
    with owner.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        cursor.execute(
            "CREATE TABLE kinds (f BIT(1), z DATE, y YEAR, e ENUM('a', 'b'), s TIMESTAMP)"
        )
        cursor.execute("INSERT INTO kinds VALUES (1, 0, 2026, 'b', 0)")

    (row,) = read(url, "SELECT * FROM kinds").rows
    assert row == {
        "f": 1,
        "z": "0000-00-00",
        "y": 2026,
        "e": "b",
        "s": "0000-00-00T00:00:00",
    }


@pytest.mark.parametrize("value", ["it's \\ % \" :x", 5, 1.5, True, None, 2**64])
def test_a_value_is_bound_in_mariadb(mariadb, value):
    found = one(mariadb[0], "SELECT :x /* :no */ # 'no", {"x": value})

    assert found == (str(value) if value == 2**64 else value)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("INSERT INTO t VALUES (1)", "begins with “INSERT”"),
        ("SELECT 1 INTO OUTFILE '/tmp/x'", "“OUTFILE”"),
        ("SELECT LOAD_FILE('/etc/passwd')", "“LOAD_FILE”"),
        ("SELECT /*! 1; DROP TABLE t */", "“/*!”"),
        ("SELECT * FROM nowhere", "doesn't exist"),
        ("SELECT nope", "Unknown column"),
        ("SELECT a FROM made FOR UPDATE", "READ ONLY"),
        ("SELECT grow()", "READ ONLY"),
    ],
)
def test_mariadb_writes_nothing_and_says_why(mariadb, sql, reason):
    url, owner = mariadb
    with owner.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS made (a INT) ENGINE=InnoDB")
        cursor.execute("CREATE OR REPLACE FUNCTION grow() RETURNS INT BEGIN INSERT INTO made VALUES (1); RETURN 1; END")  # fmt: skip
    failed = refused(url, sql)

    assert failed.final
    assert reason in str(failed)
    with owner.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM made")
        assert cursor.fetchone() == (0,)


def test_mariadb_ends_what_takes_too_long(mariadb):
    failed = refused(mariadb[0], "SELECT sleep(30)", seconds=0.5)

    assert (str(failed), failed.final) == ("took longer than 0.5 s", False)


def test_stopping_ends_the_query_in_mariadb_itself(mariadb):
    seconds, _ = stopped(
        mariadb[0],
        "SELECT count(*) FROM seq_1_to_99999999 a, seq_1_to_99999999 b WHERE a.seq = -b.seq",
    )

    assert seconds < 3


def test_a_billion_rows_of_mariadb_are_not_read_to_their_end(mariadb):
    rows = read(mariadb[0], "SELECT seq FROM seq_1_to_1000000000")

    assert not rows.whole
    assert rows.file_rows > 100_000


@pytest.mark.parametrize("option", ["local_infile=1", "read_default_file=/etc/passwd"])
def test_an_address_of_mysql_leads_to_no_file_of_ours(option):
    url = f"mysql://reader@127.0.0.1/shop?{option}"

    assert "has no place in the address" in str(refused(url, "SELECT 1"))


# Others


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("nonsense", "cannot be read"),
        ("nodriver://a:b@c/d", "no worker here has a driver"),
        ("postgresql+asyncpg://a:b@c/d", "leave out what follows the +"),
        ("mysql+mysqldb://a:b@c/d", "leave out what follows the +"),
        ("sqlite+aiosqlite:///x", "leave out what follows the +"),
        ("sqlite:////etc/passwd", "QUERY_FOLDERS"),
        ("sqlite://?mode=rwc", "has no place in the address"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused_in_words(url, reason):
    failed = refused(url, "SELECT 1")

    assert reason in str(failed)
    assert failed.final
