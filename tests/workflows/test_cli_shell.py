"""The command as a shell runs it: a process, its streams, its exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests import factories, harness
from threads import tenancy
from workflows.services import Start, spawn_run


def shell(*words: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "wf", *words],
        cwd=harness.ROOT,
        env={**os.environ, "BROKER_URL": "redis://127.0.0.1:1/0", **env},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def address(transactional_db: None, posted: list[Any]) -> str:
    house = tenancy.open_house("home", name="Home")
    alice = factories.member(house, "alice", role="owner")
    flow = factories.workflow(house, factories.sleep())
    spawn_run(flow, key="k", start=Start(by=alice))
    return harness.database_url()


def test_streams_and_statuses_are_those_of_the_contract(address, tmp_path):
    env = {"DATABASE_URL": address, "THREADWORK_DATA": str(tmp_path)}

    spawned = shell("spawn", "nightly", "--json", **env)
    refused = shell("spawn", "other", "--json", **env)
    wrong = shell("spawn", "nightly", "--nonsense", **env)
    late = shell(
        "spawn", "nightly", "--key", "k", "--wait", "--timeout", "0.1", "--json", **env
    )

    assert (spawned.returncode, refused.returncode) == (0, 1)
    assert (wrong.returncode, late.returncode) == (2, 5)
    # No ticket could be posted: the run stands, and stderr says so.
    assert json.loads(spawned.stdout)["state"] == "pending"
    assert json.loads(late.stdout)["key"] == "k"
    assert refused.stdout == wrong.stdout == ""
    assert refused.stderr.startswith("There is no workflow called “other” here")


def test_whoever_stops_reading_gets_no_traceback(address, tmp_path):
    ended = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} manage.py wf list --json | true"],
        cwd=harness.ROOT,
        env={
            **os.environ,
            "DATABASE_URL": address,
            "THREADWORK_DATA": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert "Traceback" not in ended.stderr
    assert "BrokenPipe" not in ended.stderr


def test_a_database_that_is_not_there_is_told_with_the_way_to_start_it(tmp_path):
    env = {
        "DATABASE_URL": f"postgresql://nobody@/none?host={tmp_path}",
        "THREADWORK_DATA": str(tmp_path),
    }

    ended = shell("runs", "--json", **env)

    assert (ended.returncode, ended.stdout) == (1, "")
    assert "manage.py up" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_without_an_address_the_way_to_start_is_told(tmp_path):
    ended = shell("runs", DATABASE_URL="", THREADWORK_DATA=str(tmp_path))

    assert ended.returncode == 1
    assert "manage.py up" in ended.stderr
