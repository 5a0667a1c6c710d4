"""A `query` step: another database read under the claim, its rows kept."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from project.embedded.waiting import until
from tests import drive, factories, hands
from threads import tenancy
from threads.models import Entry
from threads.runtime import letters, watch
from workflows.engine import advance, apart
from workflows.models import Checkpoint, Run
from workflows.services import cancel_run, look, spawn_run

ENDLESS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    " SELECT count(*) FROM n"
)


@pytest.fixture(autouse=True)
def shop(settings, house, tmp_path: Path, monkeypatch) -> Path:
    """A SQLite database that a query may read, kept as db.shop."""
    settings.QUERY_FOLDERS = [str(tmp_path / "databases")]
    settings.CANCEL_SECONDS = 2.0
    monkeypatch.setattr(apart, "PAUSE_SECONDS", 0.0)
    path = tmp_path / "databases" / "shop.db"
    path.parent.mkdir()
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE orders (id INTEGER, item TEXT, total NUMERIC)")
        base.executemany(
            "INSERT INTO orders VALUES (?, ?, ?)",
            [(1, "tea", 2.5), (2, "a|b *c*", 3), (3, "=1+1", None)],
        )
    base.close()
    tenancy.set_secret(house, "db.shop", f"sqlite:///{path}")
    return path


def query(name: str = "read", sql: str = "SELECT 1 AS one", **more: Any):
    return {"name": name, "kind": "query", "database": "shop", "sql": sql, **more}


def start(house, *steps, **more):
    return spawn_run(factories.workflow(house, *steps), **more).run


def queried(house, sql: str, **more: Any) -> Checkpoint:
    run = drive.carry(start(house, query(sql=sql, **more)))
    return Checkpoint.objects.get(run=run)


def rows_of(run: Run) -> Any:
    result = Checkpoint.objects.get(run=run).result
    assert result is not None
    return result["rows"]


def test_its_rows_are_its_result_and_stand_open_to_later_steps(house):
    step = query(
        "q", "SELECT id, item FROM orders WHERE id < :below", params={"below": 3}
    )
    say = factories.command("say", "echo {{steps.q.rows.1.item}} {{steps.q.truncated}}")

    run = drive.carry(start(house, step, say))

    rows = [{"id": 1, "item": "tea"}, {"id": 2, "item": "a|b *c*"}]
    first, second = Checkpoint.objects.filter(run=run).order_by("position")
    assert first.result == {"rows": rows, "truncated": 0}
    assert second.instruction == "echo a|b *c* 0"
    assert run.pool == "steps"


def test_no_rows_are_a_result_too(house):
    assert queried(house, "SELECT id FROM orders WHERE 0").result == {
        "rows": [],
        "truncated": 0,
    }


def test_the_thread_shows_the_sql_the_values_and_the_first_rows(house):
    step = query(
        sql="SELECT id, item\nFROM orders -- all\nWHERE item <> :item",
        params={"item": "{{payload.word}}"},
    )

    run = drive.carry(start(house, step, payload={"word": "x_y"}))

    asked, told = drive.bodies(run)[1:3]
    assert asked == (
        "Read shop:\n\n```sql\n"
        "SELECT id, item\nFROM orders -- all\nWHERE item <> :item\n```\n\n"
        "with item = x_y"
    )
    first, _, table = told.partition("\n\n")
    assert first.startswith("3 rows in 0.")
    assert table.splitlines() == [
        "| id | item |",
        "| --- | --- |",
        "| 1 | tea |",
        r"| 2 | a\|b \*c\* |",
        "| 3 | =1+1 |",
    ]


def test_it_emits_no_event(house):
    run = drive.carry(start(house, query()))

    assert hands.sql("SELECT 1 FROM workflows_event WHERE key = %s", str(run.pk)) == 0


# Values and placeholders


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("{{payload.n}}", 7),
        ("{{payload.n}} of 9", "7 of 9"),
        ("it's ; -- :x", "it's ; -- :x"),
        (True, 1),
        (None, None),
        ([1, "a"], '[1, "a"]'),
        ({"a": 1.5}, '{"a": 1.5}'),
    ],
)
def test_a_value_is_bound_and_never_put_into_the_text(house, given, kept):
    run = start(
        house, query(sql="SELECT :x AS x", params={"x": given}), payload={"n": 7}
    )
    drive.carry(run)

    assert rows_of(run) == [{"x": kept}]


def test_placeholders_do_not_render_in_the_sql(house):
    run = drive.carry(
        start(house, query(sql="SELECT '{{payload.a}}' AS x"), payload={"a": 1})
    )

    assert rows_of(run) == [{"x": "{{payload.a}}"}]


def test_a_failure_of_sql_with_a_placeholder_says_that_none_renders(house):
    step = queried(house, "SELECT {{payload.a}}")

    assert "Placeholders do not render in sql" in step.error


def test_a_value_that_is_missing_fails_the_step_before_it_begins(house):
    step = queried(house, "SELECT :x AS x", params={"x": "{{payload.nowhere}}"})

    assert "“payload.nowhere” has no value" in step.error


# What cannot be read


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT nope FROM orders", "no such column: nope"),
        ("INSERT INTO orders VALUES (1, 2, 3)", "begins with “INSERT”"),
        ("DELETE FROM orders RETURNING id", "begins with “DELETE”"),
        ("ATTACH '/etc/passwd' AS x", "begins with “ATTACH”"),
        ("PRAGMA query_only = 0", "begins with “PRAGMA”"),
        ("WITH x AS (SELECT 1) DELETE FROM orders", "not authorized"),
        ("SELECT load_extension('x')", "load_extension"),
        ("SELECT * FROM pragma_database_list", "not authorized"),
        ("SELECT zeroblob(2000000000)", "too big"),
    ],
)
def test_what_is_no_plain_read_is_refused_for_good(house, shop, sql, reason):
    before = shop.read_bytes()
    step = queried(house, sql, retries={"limit": 3, "delay": 60})

    assert reason in step.error
    assert (step.state, step.tries) == ("failed", 1)
    assert shop.read_bytes() == before


def test_one_statement_and_no_more(house, shop):
    # One statement where # begins a comment, two where it does not.
    step = queried(house, "SELECT 1 #; DELETE FROM orders")

    assert step.error == "sql holds more than one statement; a query is one"


def test_a_database_that_nobody_named_fails_in_words(house):
    step = queried(house, "SELECT 1", database="nowhere")

    assert step.error == (
        "there is no database called “nowhere” in this house; "
        "`wf secret set db.nowhere` keeps the address of one"
    )


def test_a_database_of_another_house_is_none_of_this_one(house):
    away = tenancy.open_house("away", name="Away")
    step = query()

    run = drive.carry(start(away, step))

    assert "there is no database called “shop”" in hands.failure(run)[1]


@pytest.mark.parametrize("place", ["outside.db", "link.db", "databases/../outside.db"])
def test_a_file_outside_the_allowed_folders_is_not_opened(house, tmp_path, shop, place):
    outside = tmp_path / "outside.db"
    outside.write_bytes(shop.read_bytes())
    (tmp_path / "databases" / "link.db").symlink_to(outside)
    path = tmp_path / ("databases/link.db" if place == "link.db" else place)
    tenancy.set_secret(house, "db.shop", f"sqlite:///{path}")

    step = queried(house, "SELECT 1 FROM orders")

    assert "outside the folders" in step.error


# Away, late, stopped


def test_a_database_that_is_away_is_tried_again(house, shop):
    kept = shop.rename(shop.with_name("away.db"))
    run = drive.carry(
        start(
            house, query(sql="SELECT id FROM orders", retries={"limit": 1, "delay": 9})
        )
    )
    assert (run.state, drive.steps(run)) == ("sleeping", [("read", "sleeping")])
    kept.rename(shop)

    drive.wake(run)

    assert drive.steps(run) == [("read", "completed")]
    assert any("there is no database file “shop.db”" in b for b in drive.bodies(run))


SECRET = "s3cret-w0rd"


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://bob:{SECRET}@127.0.0.1:1/shop",
        f"mysql://bob:{SECRET}@127.0.0.1:1/shop",
        f"postgresql://bob:{SECRET}@127.0.0.1:1/shop?sslpassword={SECRET}",
        f"nodriver://bob:{SECRET}@127.0.0.1/shop",
        f"postgresql://bob:{SECRET}@127.0.0.1:port/shop",
    ],
)
def test_an_address_is_nowhere_to_be_read(house, caplog, address, settings):
    tenancy.set_secret(house, "db.shop", address)
    run = start(
        house, query(sql="SELECT :x", params={"x": "{{payload.x}}"}), payload={"x": "a"}
    )
    drive.carry(run)

    step = Checkpoint.objects.get(run=run)
    assert step.state == "failed"
    said = [*drive.bodies(run), step.error, step.instruction, caplog.text]
    assert not any(SECRET in words for words in said)
    files = [p for p in Path(settings.WORKSPACES).rglob("*") if p.is_file()]
    assert not any(SECRET.encode() in file.read_bytes() for file in files)


def test_a_value_that_holds_the_address_is_masked_in_the_thread(house, shop):
    run = start(house, query(sql="SELECT :x AS x", params={"x": f"sqlite:///{shop}"}))
    drive.carry(run)

    assert "with x = •••" in drive.bodies(run)[1]


def test_one_that_takes_too_long_is_ended(house):
    began = time.monotonic()
    step = queried(house, ENDLESS, timeout=1)

    assert step.error == "took longer than 1 s"
    assert time.monotonic() - began < 20


def elsewhere(run: Run, act) -> None:
    """Carry the run on in this thread while another acts on it once it has begun."""
    folder = Path(settings.WORKSPACES) / str(run.pk)

    def other(number: int) -> None:
        if number == 0:
            hands.go_on_there(run, once=True)
            return
        assert until(lambda: bool([*folder.rglob(letters.BEGUN)]), seconds=20)
        act()

    hands.together(2, other)


@pytest.mark.django_db(transaction=True)
def test_a_cancel_ends_it_within_a_bounded_time(house):
    run = hands.go_on(start(house, query(sql=ENDLESS)))
    began = []

    def cancel() -> None:
        cancel_run(run.pk, who="alice")
        began.append(time.monotonic())

    elsewhere(run, cancel)

    assert time.monotonic() - began[0] < 10
    run.refresh_from_db()
    assert (run.state, drive.steps(run)) == ("cancelled", [("read", "cancelled")])


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_shuts_down_hands_it_over_at_no_cost(house, settings):
    settings.DRAIN_SECONDS = 0.2
    run = hands.go_on(start(house, query(sql=ENDLESS)))
    try:
        elsewhere(run, watch.draining.set)
    finally:
        watch.draining.clear()

    run.refresh_from_db()
    found = (run.state, run.pool, run.attempts, run.crashes)
    assert found == ("pending", "turns", 1, 0)


@pytest.mark.django_db(transaction=True)
def test_one_that_was_taken_over_is_ended_and_changes_nothing(house, settings):
    settings.SLICE_SECONDS = 0.0  # or this very worker would take it again
    run = hands.go_on(start(house, query(sql=ENDLESS)))

    def take_over() -> None:
        hands.die("worker-turns")
        assert look(run.pk)

    elsewhere(run, take_over)

    run.refresh_from_db()
    assert (run.state, run.attempts, run.crashes) == ("pending", 2, 1)
    assert Checkpoint.objects.get().state == "running"


def test_one_whose_worker_died_is_read_again_and_said_once(house):
    run = hands.go_on(start(house, query(sql="SELECT 1 AS one")))
    held = hands.hold(run, role="worker-turns", pool="turns")
    step = query()
    assert step["kind"] == "query"
    hands.die("worker-turns")
    assert look(run.pk)
    hands.sql("UPDATE threads_pulse SET name = name || id || random()")
    advance.carry(held, end=float("inf"))  # the zombie changes nothing
    assert not Checkpoint.objects.filter(state="completed").exists()

    drive.carry(run)

    assert (run.state, run.attempts) == ("completed", 2)
    bodies = Entry.objects.filter(thread=drive.thread_of(run), kind="instruction")
    assert bodies.count() == 1


def test_what_ended_before_its_worker_heard_of_it_is_adopted(house, settings):
    run = hands.go_on(start(house, query()))
    held = hands.hold(run, role="worker-turns", pool="turns")
    folder = Path(settings.WORKSPACES) / str(run.pk) / "calls" / "0-1-1-0"
    letters.prepare(folder)
    kept = {"columns": ["x"], "rows": [{"x": "earlier"}], "left_out": 0, "cut": 0}
    more = {"whole": True, "file_rows": 0, "seconds": 0.1}
    letters.write(folder / letters.ANSWER, {"result": {**kept, **more}})

    advance.carry(held, end=float("inf"))

    assert rows_of(run) == [{"x": "earlier"}]


def test_one_that_needs_too_much_memory_fails_alone(house, settings):
    settings.QUERY_MEMORY = 256 * 1024**2
    blobs = ", ".join(f"zeroblob(90000000) AS b{n}" for n in range(9))
    step = queried(house, f"SELECT {blobs}")

    assert step.error.startswith("it needed more memory than a query may have")


def test_the_page_shows_the_sql_and_a_table_in_which_nothing_runs(house, alice, client):
    run = drive.carry(start(house, query(sql="SELECT '<script>x</script>' AS \"<b>\"")))
    client.force_login(alice)

    page = client.get(f"/runs/{run.pk}/").content.decode()

    assert "<td>&lt;script&gt;x&lt;/script&gt;</td>" in page
    assert "<th>&lt;b&gt;</th>" in page
    assert "SELECT &#x27;&lt;script&gt;" in page or "SELECT '&lt;script&gt;" in page
    assert "<script>x" not in page


def test_the_command_line_says_how_many_rows_came(house, alice, wf):
    run = drive.carry(start(house, query(sql="SELECT id FROM orders")))

    assert "3 rows" in wf("show", run.pk).stdout
