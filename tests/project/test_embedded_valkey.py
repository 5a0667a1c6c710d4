from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis
from kombu.connection import Connection

from project.embedded import valkey
from project.embedded.places import Place
from tests.project import bases
from tests.project.test_embedded_postgres import AS_NOBODY, give, needs_root


@pytest.fixture
def base() -> Iterator[Path]:
    with bases.base(below="a b/é") as folder:
        yield folder / "broker"


def client(place: Place) -> redis.Redis:
    return redis.Redis(
        unix_socket_path=str(place.run / valkey.SOCKET), single_connection_client=True
    )


def test_a_second_start_adopts_the_server_of_the_first(base):
    first = valkey.start(base)

    second = valkey.start(base)

    assert (second.pid, second.url) == (first.pid, first.url)
    valkey.stop(second)
    assert not first.lives()


def test_its_address_is_one_that_carries_messages(base):
    url = valkey.start(base).url

    with Connection(url) as connection, connection.SimpleQueue("letters") as letters:
        letters.put({"run": 1})

        assert letters.get(timeout=5).payload == {"run": 1}


def test_what_was_written_survives_sigkill(base):
    first = valkey.start(base)
    with client(first.place) as there:
        there.rpush("kept", "a", "b")
    os.kill(first.pid, signal.SIGKILL)

    second = valkey.start(base)

    assert not first.lives()
    with client(second.place) as there:
        assert there.lrange("kept", 0, -1) == [b"a", b"b"]


def test_a_server_that_hangs_is_replaced(base, monkeypatch):
    monkeypatch.setattr(valkey, "ANSWER_SECONDS", 0.1)
    first = valkey.start(base)
    os.kill(first.pid, signal.SIGSTOP)

    second = valkey.start(base)

    assert second.pid != first.pid
    assert not first.lives()


def test_an_unreadable_file_is_put_aside_and_the_server_starts_empty(base):
    first = valkey.start(base)
    bases.kill(first)
    (manifest,) = first.place.data.glob("appendonlydir/*.manifest")
    manifest.write_text("nonsense\n")

    second = valkey.start(base)

    with client(second.place) as there:
        assert there.dbsize() == 0
    assert (second.place.home / "data.unreadable-1/appendonlydir").is_dir()


@needs_root
def test_the_server_of_root_runs_under_an_account_without_rights(base):
    process = psutil.Process(valkey.start(base).pid)

    assert 0 not in process.uids()


@needs_root
def test_an_ordinary_user_starts_it():
    with bases.base() as folder:
        printed = bases.python(AS_NOBODY, str(give(folder / "broker")), "valkey")

        assert printed == f"redis+socket://{folder}/broker/run/valkey.sock"
