from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import pools

from project.celery import app
from tests import factories
from tests.harness import CALLS, Stack, quiet
from tests.kills import World
from threads import post, tenancy
from threads.liveness import known_runtimes
from threads.runtime import sandbox
from threads.runtime.bots import RUNTIMES


def post_to(url: str | None) -> None:
    """Point this process's own tickets at a broker."""
    app.conf.broker_url = url
    app.amqp._producer_pool = app._pool = None
    pools.reset()
    post.messenger.quiet_until = 0.0


@pytest.fixture
def stack(transactional_db: None, settings: Any) -> Iterator[Stack]:
    """A broker of the test's own, and roles as it starts them."""
    base = Path(tempfile.mkdtemp(prefix="tw-"))
    made = Stack(base)
    settings.CALLS = dict(word.split("=") for word in CALLS.split(","))
    post_to(made.broker.url)
    try:
        yield made
    finally:
        post_to(None)
        made.down()
        quiet()
        shutil.rmtree(base, ignore_errors=True)


@pytest.fixture
def world(transactional_db: None, posted: list[Any], settings: Any) -> Iterator[World]:
    base = Path(tempfile.mkdtemp(prefix="tw-"))
    base.chmod(0o755)
    settings.SANDBOX = "process"
    settings.WORKSPACES = base / "workspaces"
    sandbox.choose("process")  # once, before the processes are forked
    settings.SLICE_SECONDS = 1.0  # a scenario's own is undone with it
    settings.CALLS = {
        "witness": "quick:tests.witness.write",
        "fails": "quick:tests.witness.fail",
        "slow": "tests.witness.write",
    }
    house = tenancy.open_house("home", name="Home")
    made = World(base, house, factories.member(house, "alice", role="owner"))
    made.witness.touch()
    made.witness.chmod(0o666)  # commands may run as somebody else
    os.environ["WITNESS"] = str(made.witness)
    try:
        yield made
    finally:
        RUNTIMES.pop("shaky", None)  # what a scenario has announced
        known_runtimes.discard("shaky")
        del os.environ["WITNESS"]
        shutil.rmtree(base, ignore_errors=True)
