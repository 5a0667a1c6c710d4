"""The tool `query_database`: allow-listed for each bot, its rows short for a model."""

from __future__ import annotations

import sqlite3

import pytest

from tests import drive, factories, hands
from threads import tenancy
from threads.models import Bot, Turn
from threads.runtime import letters, tools, workspace
from threads.runtime.watch import Watch
from workflows.services import spawn_run

ENDLESS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    " SELECT count(*) FROM n"
)


@pytest.fixture
def turn(house, settings, tmp_path) -> Turn:
    """A turn at work, of a bot that may read db.shop and not db.other."""
    settings.QUERY_FOLDERS = [str(tmp_path)]
    with sqlite3.connect(tmp_path / "shop.db") as base:
        base.execute("CREATE TABLE t (id, item)")
        rows = [(1, "tea, green"), (2, None), (3, "a\nb\x1b[31m")]
        base.executemany("INSERT INTO t VALUES (?, ?)", rows)
    base.close()
    for name in ("shop", "other"):
        tenancy.set_secret(house, f"db.{name}", f"sqlite:///{tmp_path / 'shop.db'}")
    Bot.objects.update(limits={"databases": ["shop"]})
    step = factories.prompt("look")
    run = hands.go_on(spawn_run(factories.workflow(house, step)).run)
    return drive.begun_turn(run)


def use(turn, sql, number=1, **more):
    args = {"database": "shop", "sql": sql, **more}
    found = tools.use(turn, "query_database", args, number=number, watch=Watch(turn))
    assert found is not None
    return found


def test_a_model_gets_the_rows_as_csv(turn):
    assert use(turn, "SELECT id, item FROM t WHERE id < :n", params={"n": 3}) == {
        "ok": True,
        "text": '2 rows\nid,item\n1,"tea, green"\n2,',
    }


def test_what_does_not_fit_is_counted(turn, settings):
    settings.OUTPUT_LIMIT = 25

    text = use(turn, "SELECT id, 'xxxxxxx' AS x FROM t")["text"]

    assert text.splitlines() == [
        "3 rows",
        "id,x",
        "1,xxxxxxx",
        "… and 2 more rows; ask for less, or add up in SQL",
    ]


def test_rows_are_capped_as_those_of_a_step_are(turn, settings):
    settings.QUERY_ROWS = 1

    text = use(turn, "SELECT id FROM t")["text"]

    assert text.startswith("2 rows read, and there are more\nid\n1\n… and 1 more")


@pytest.mark.parametrize("name", ["other", "nowhere", "db.shop", "SHOP"])
def test_a_database_that_its_bot_may_not_read_is_refused(turn, name):
    found = use(turn, "SELECT 1", database=name)

    assert found == {
        "ok": False,
        "text": f"“{name}” is not a database you may read; those are: shop.",
    }


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("DELETE FROM t", "begins with “DELETE”"),
        ("SELECT nope FROM t", "no such column: nope"),
        ("SELECT 1; SELECT 2", "more than one statement"),
        ("SELECT :x", "params does not have"),
    ],
)
def test_a_mistake_is_answered_and_never_fatal(turn, sql, reason):
    found = use(turn, sql)

    assert (found["ok"], reason in found["text"]) == (False, True)


def test_bad_arguments_are_answered_too(turn):
    found = tools.use(
        turn, "query_database", {"database": "shop"}, number=1, watch=Watch(turn)
    )

    assert found is not None
    assert "sql" in found["text"]


def test_one_that_takes_too_long_is_answered(turn, settings):
    settings.QUERY_SECONDS = 0.5

    assert use(turn, ENDLESS) == {"ok": False, "text": "took longer than 0.5 s"}


def test_a_turn_that_was_taken_over_ends_its_query(turn):
    hands.sql("UPDATE threads_turn SET attempts = attempts + 1")
    args = {"database": "shop", "sql": ENDLESS}

    found = tools.use(turn, "query_database", args, number=1, watch=Watch(turn))

    assert found is None


def test_an_answer_left_to_the_same_call_is_taken(turn):
    folder = workspace.folder(turn) / "queries" / f"{turn.pk}-7"
    letters.prepare(folder)
    letters.write(
        folder / letters.ANSWER, {"failed": "of an earlier worker", "final": True}
    )

    assert use(turn, "SELECT 1", number=7)["text"] == "of an earlier worker"


def test_it_is_offered_only_to_a_bot_that_may_read_something(turn):
    names = [tool.name for tool in tools.definitions(turn.bot)]
    (tool,) = [tool for tool in tools.definitions(turn.bot) if "query" in tool.name]
    assert "Databases: shop." in tool.description

    turn.bot.limits = {}

    assert "query_database" in names
    assert "query_database" not in [t.name for t in tools.definitions(turn.bot)]
    found = tools.use(turn, "query_database", {}, number=1, watch=Watch(turn))
    assert found is not None
    assert not found["ok"]
