"""A real Postgres for every test that asks for a database."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings

from project import env
from project.embedded import postgres
from tests import factories, hands
from threads import tenancy
from threads.models import House

# A busy machine draws slowly; that says nothing of what is drawn.
hypothesis.settings.register_profile(
    "house", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("house")


@dataclass
class Database:
    """The Postgres of this session: the one named in the environment, or our own."""

    url: str
    base: Path | None = None
    server: Any = None

    def restart(self) -> None:
        """Stop our own server at once, as a failover would, and start it again."""
        with self.away():
            pass

    @contextmanager
    def away(self, number: int = signal.SIGINT) -> Iterator[None]:
        """Stop our own server meanwhile: fast by SIGINT, or immediately by SIGQUIT."""
        if self.base is None:
            pytest.skip("DATABASE_URL names a server that is not ours to restart")
        os.kill(self.server.pid, number)
        postgres.stop(self.server)
        try:
            yield
        finally:
            self.server = postgres.start(self.base)

    def log(self) -> str:
        return self.server.place.log.read_text() if self.server else ""


@pytest.fixture(scope="session")
def server() -> Iterator[Database]:
    if settings.DATABASE_URL:
        yield Database(settings.DATABASE_URL)
        return
    base = Path(tempfile.mkdtemp(prefix="threadwork-test-"))
    started = postgres.start(base)
    made = Database(started.url, base, started)
    try:
        yield made
    finally:
        postgres.stop(made.server)
        shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(server: Database) -> None:
    settings.DATABASE_URL = settings.DATABASE_DIRECT_URL = server.url
    settings.DATABASES["default"].update(env.database(server.url))


@pytest.fixture(autouse=True)
def apart(settings: Any, tmp_path: Path) -> None:
    """Keep a test's files and mail to itself, and its tickets at home."""
    settings.WORKSPACES = tmp_path / "workspaces"
    settings.SOURCES_DIR = tmp_path / "sources"
    settings.QUERY_FOLDERS = [str(tmp_path / "databases")]
    settings.ARTIFACTS = tmp_path / "artifacts"
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The tickets that would have gone to a broker."""
    tickets: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        "threads.post.messenger.send",
        lambda name, *, queue, args: tickets.append((name, queue, *args)),
    )
    return tickets


@pytest.fixture
def house(db: None, posted: list[Any]) -> House:
    return tenancy.open_house("home", name="Home")


@pytest.fixture
def alice(house: House) -> Any:
    return factories.member(house, "alice", role="owner")


@pytest.fixture
def bob(house: House) -> Any:
    return factories.member(house, "bob", role="member")


@pytest.fixture
def carol(house: House) -> Any:
    return factories.member(house, "carol", role="viewer")


@pytest.fixture
def dave(db: None) -> Any:
    """A person of another house."""
    return factories.member(tenancy.open_house("away", name="Away"), "dave")


@pytest.fixture
def calls(settings: Any) -> hands.Calls:
    """The function that `work` steps call, fresh for each test."""
    settings.CALLS = {"work": "quick:tests.hands.called"}
    hands.called.seen.clear()
    hands.called.faults, hands.called.value = 0, None
    return hands.called
