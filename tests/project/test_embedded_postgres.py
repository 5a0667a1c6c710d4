from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from sqlalchemy import create_engine, make_url, text

from project import env
from project.embedded import places, postgres, waiting
from tests.project import bases

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes accounts as root")


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    """One cluster for all, since every test starts by making or finding its server."""
    with bases.base() as folder:
        yield folder / "postgres"


@pytest.fixture
def fresh() -> Iterator[Path]:
    with bases.base() as folder:
        yield folder / "postgres"


def ask(url: str, question: str) -> Any:
    with psycopg.connect(url, autocommit=True) as connection:
        answer = connection.execute(question)
        return answer.fetchone() if answer.description else None


def test_a_second_start_adopts_the_server_of_the_first(base):
    first = postgres.start(base)

    second = postgres.start(base)

    assert (second.pid, second.url) == (first.pid, first.url)
    postgres.stop(second)
    assert not first.lives()


def test_rows_are_kept_between_starts(base):
    first = postgres.start(base)
    ask(first.url, "CREATE TABLE IF NOT EXISTS kept AS SELECT 42 AS n")
    postgres.stop(first)

    second = postgres.start(base)

    assert second.pid != first.pid
    assert ask(second.url, "SELECT n FROM kept") == (42,)


def test_committed_rows_survive_sigkill(base):
    first = postgres.start(base)
    ask(first.url, "CREATE TABLE IF NOT EXISTS kept AS SELECT 42 AS n")
    os.kill(first.pid, signal.SIGKILL)  # not reaped: its zombie still has the pid

    second = postgres.start(base)

    assert not first.lives()
    assert ask(second.url, "SELECT n FROM kept") == (42,)


def test_four_starters_at_once_share_one_server(fresh):
    script = (
        "import sys, pathlib; from project.embedded import postgres;"
        "print(postgres.start(pathlib.Path(sys.argv[1])).pid)"
    )
    with ThreadPoolExecutor(4) as starters:
        pids = list(starters.map(lambda _: bases.python(script, str(fresh)), range(4)))

    assert len(set(pids)) == 1


def test_a_pid_that_now_belongs_to_another_does_no_harm_and_takes_none(base):
    bases.kill(first := postgres.start(base))
    with subprocess.Popen(["sleep", "60"]) as stranger:
        locks = [first.place.data / "postmaster.pid"]
        locks += [first.place.run / f"{postgres.SOCKET}.lock"]
        for lock in locks:
            _, *rest = lock.read_text().splitlines()
            lock.write_text("\n".join([str(stranger.pid), *rest]) + "\n")

        second = postgres.start(base)

        assert ask(second.url, "SELECT 1") == (1,)
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize("content", [b"", b"12", b"4194304\n/some", b"\xff\x00\n"])
def test_a_damaged_lock_file_of_a_dead_server_is_no_obstacle(base, content):
    bases.kill(first := postgres.start(base))
    (first.place.data / "postmaster.pid").write_bytes(content)

    assert ask(postgres.start(base).url, "SELECT 1") == (1,)


def test_a_damaged_lock_file_of_a_living_server_does_not_hide_it(base):
    first = postgres.start(base)
    (first.place.data / "postmaster.pid").write_text("")

    assert postgres.start(base).pid == first.pid
    bases.kill(first)


def test_a_query_that_outlives_its_server_does_not_block_the_next(base):
    first = postgres.start(base)
    busy = threading.Thread(target=count_for_long, args=[first.url])
    busy.start()
    query = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT count(n)%'"
    assert waiting.until(lambda: ask(first.url, query) == (1,), seconds=10)
    bases.kill(first)

    assert ask(postgres.start(base).url, "SELECT 1") == (1,)
    busy.join(10)
    assert not busy.is_alive()


def count_for_long(url: str) -> None:
    with pytest.raises(psycopg.OperationalError):
        ask(url, "SELECT count(n) FROM generate_series(1, 1000000000) n")


def test_a_cluster_whose_making_was_cut_short_is_made_anew(fresh):
    half = fresh / "data.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")

    assert ask(postgres.start(fresh).url, "SELECT 1") == (1,)


def test_data_of_another_major_version_is_refused_by_name(fresh):
    server = postgres.start(fresh)
    postgres.stop(server)
    (server.place.data / "PG_VERSION").write_text("17\n")

    with pytest.raises(places.ServerFailed, match="Postgres 17, and this is Postgres"):
        postgres.start(fresh)


def test_a_server_that_cannot_start_says_why(base, monkeypatch):
    postgres.stop(postgres.start(base))
    monkeypatch.setattr(postgres, "RELAUNCH_SECONDS", 0)
    monkeypatch.setitem(postgres.OPTIONS, "max_connections", "none")

    with pytest.raises(places.ServerFailed, match="max_connections"):
        postgres.start(base)


def test_the_address_serves_django_sqlalchemy_and_libpq_whatever_pgport_says(
    base, monkeypatch
):
    monkeypatch.setenv("PGPORT", "1")
    server = postgres.start(base)

    assert ask(server.url, "SELECT current_database()") == ("threadwork",)
    parts = env.database(server.url)
    assert (parts["HOST"], parts["PORT"]) == (str(server.place.run), "5432")
    engine = create_engine(make_url(server.url).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT lower('É')")).scalar() == "é"
    engine.dispose()


@needs_root
def test_the_server_of_root_runs_under_an_account_without_rights(base):
    process = psutil.Process(postgres.start(base).pid)

    assert 0 not in process.uids()
    assert 0 not in process.gids()


@needs_root
def test_files_a_closed_folder_hides_lie_in_the_shelter_and_are_found_again():
    with bases.base(mode=0o700, below="a b/é") as folder:
        base = folder / "postgres"
        first = postgres.start(base)

        assert first.place.home == places.SHELTER / places.digest(folder) / "postgres"
        assert (base / "files").readlink() == first.place.home
        ask(first.url, "CREATE TABLE IF NOT EXISTS kept AS SELECT 42 AS n")
        bases.kill(first)
        assert ask(postgres.start(base).url, "SELECT n FROM kept") == (42,)


@needs_root
def test_a_folder_made_anew_starts_empty_and_loses_no_old_data():
    with bases.base(mode=0o700) as folder:
        base = folder / "postgres"
        first = postgres.start(base)
        postgres.stop(first)
        (base / "files").unlink()

        second = postgres.start(base)

        assert second.place.home == first.place.home
        kept = list(first.place.home.parent.glob("postgres.old-*/data/PG_VERSION"))
        assert len(kept) == 1


@needs_root
def test_data_that_a_closed_folder_hides_afterwards_is_refused_not_replaced(fresh):
    postgres.stop(postgres.start(fresh))
    fresh.parent.chmod(0o700)

    with pytest.raises(places.ServerFailed, match="cannot reach"):
        postgres.start(fresh)


@needs_root
def test_the_owner_of_the_data_stays_who_runs_the_server(fresh):
    bases.python(AS_NOBODY, str(give(fresh)), "postgres")

    server = postgres.start(fresh)

    assert psutil.Process(server.pid).uids().real == 65534
    postgres.stop(server)


@needs_root
@pytest.mark.parametrize("below", ["short", "deep/" * 22])
def test_an_ordinary_user_starts_it_however_deep_the_folder(below):
    with bases.base(below=below) as folder:
        printed = bases.python(AS_NOBODY, str(give(folder / "postgres")), "postgres")

        assert printed.endswith("('nobody runs it',)")


AS_NOBODY = (
    bases.DROP
    + """
server = {"postgres": postgres, "valkey": valkey}[sys.argv[2]].start(Path(sys.argv[1]))
print(server.url)
if sys.argv[2] == "postgres":
    with psycopg.connect(server.url) as connection:
        print(connection.execute("SELECT 'nobody runs it'").fetchone())
    postgres.stop(server)
else:
    valkey.stop(server)
"""
)


def give(folder: Path) -> Path:
    folder.mkdir(parents=True)
    os.chown(folder, 65534, 65534)
    return folder
