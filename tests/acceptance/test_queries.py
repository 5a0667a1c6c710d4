"""Queries on real workers: killed in the middle, cancelled, and beside others."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests import databases, drive, factories
from tests.harness import Stack
from threads import tenancy
from threads.models import House
from workflows import documents
from workflows.models import Run
from workflows.services import cancel_run, spawn_run


@pytest.fixture
def home(stack: Stack, server: Any) -> House:
    url, _ = databases.shop(server.url)
    house = tenancy.open_house("home", name="Home")
    tenancy.set_secret(house, "db.shop", url)
    return house


def sleeping(server: Any) -> int:
    """Count the queries that sleep in the database, whatever they call themselves."""
    with psycopg.connect(server.url) as session:
        row = session.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE usename = 'reader' AND wait_event = 'PgSleep'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def state(run: Run) -> str:
    return Run.objects.values_list("state", flat=True).get(pk=run.pk)


def query(seconds: int, **more: Any) -> dict[str, Any]:
    sql = "SELECT 7 AS n FROM pg_sleep(:s)"
    step = {"name": "q", "kind": "query", "database": "shop", "sql": sql}
    return {**step, "params": {"s": seconds}, **more}


@pytest.mark.timeout(120)
def test_a_query_whose_worker_is_killed_ends_there_and_is_read_again(
    stack: Stack, home: House, server: Any
):
    stack.up("conductor", "steps", "turns.a")
    run = spawn_run(factories.workflow(home, query(5))).run
    stack.wait(lambda: sleeping(server) == 1, 30)
    stack.kill("turns.a")
    stack.wait(lambda: sleeping(server) == 0, 6)

    stack.start("turns.b")

    stack.wait(lambda: state(run) == "completed", 60)
    (step,) = documents.run(run)["steps"]
    assert (step["result"]["rows"], step["attempts"]) == ([{"n": 7}], 2)
    told = drive.bodies(run)[1:]
    assert told[0].startswith("Read shop:")
    assert len(told) == 4  # asked, its rows, its file, the end: each once
    stack.wait(lambda: sleeping(server) == 0, 10)


@pytest.mark.timeout(120)
def test_a_cancel_ends_the_query_in_the_database_and_keeps_nobody_waiting(
    stack: Stack, home: House, server: Any
):
    stack.up("conductor", "steps", "turns")
    long = spawn_run(factories.workflow(home, query(90))).run
    stack.wait(lambda: sleeping(server) == 1, 30)
    short = spawn_run(factories.workflow(home, query(0), slug="short")).run
    stack.wait(lambda: state(short) == "completed", 20)

    cancel_run(long.pk, who="alice")

    stack.wait(lambda: state(long) == "cancelled", 10)
    stack.wait(lambda: sleeping(server) == 0, 3)
