from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import pools

from project.celery import app
from tests.harness import CALLS, Stack, quiet
from threads import post


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
