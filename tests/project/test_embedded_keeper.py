from __future__ import annotations

import os
import selectors
import signal
from pathlib import Path

import psutil
import pytest

from project.embedded import keeper as keepers
from project.embedded import servers, waiting, wakeup
from project.embedded.keeper import Keeper
from project.embedded.places import Place, ServerFailed
from project.embedded.servers import Server


class Sleeper:
    """A server that does nothing, or fails to start for a reason."""

    def __init__(self) -> None:
        self.trouble = ""

    def start(self, base: Path) -> Server:
        if self.trouble:
            raise ServerFailed(self.trouble)
        place = Place(base, base, base, None)
        child = servers.launch(["/bin/sleep", "60"], place)
        return Server("sleep://", child.pid, place, psutil.Process(child.pid), child)

    def stop(self, server: Server) -> None:
        servers.end(server, [(signal.SIGTERM, 5.0)])


@pytest.fixture
def kind() -> Sleeper:
    return Sleeper()


@pytest.fixture
def keeper(kind, tmp_path):
    keeper = Keeper("sleeper", tmp_path, kind)
    yield keeper
    keeper.end(seconds=5)


def heard(keeper: Keeper) -> str:
    words: list[str] = []

    def spoke() -> bool:
        words.append(keeper.look() or "")
        return bool(words[-1])

    assert waiting.until(spoke, seconds=5)
    return words[-1]


def test_a_server_that_dies_is_started_again(keeper):
    keeper.begin()
    first = heard(keeper)
    assert keeper.server
    assert first == f"sleeper runs as process {keeper.server.pid}."

    os.kill(keeper.server.pid, signal.SIGKILL)

    assert heard(keeper) == "sleeper ended; starting it again."
    assert heard(keeper) not in {first, ""}
    assert keeper.server.lives()


def test_a_server_that_cannot_start_says_why_and_is_tried_again(
    keeper, kind, monkeypatch
):
    monkeypatch.setattr(keepers, "AGAIN_SECONDS", 0.01)
    kind.trouble = "the disk is full"
    keeper.begin()

    assert heard(keeper) == "sleeper did not start: the disk is full"

    kind.trouble = ""

    while "did not start" in (words := heard(keeper)):
        pass
    assert words.startswith("sleeper runs as process")


def test_the_end_leaves_no_process(keeper):
    keeper.begin()
    heard(keeper)
    server = keeper.server

    keeper.end(seconds=5)

    assert server
    assert not server.lives()


def test_a_signal_wakes_the_selector_and_asks_for_an_end_once():
    asked: list[int] = []
    selector = selectors.DefaultSelector()
    before = signal.getsignal(signal.SIGTERM)

    with wakeup.signals(selector, lambda: asked.append(1)):
        os.kill(os.getpid(), signal.SIGTERM)
        ((key, _),) = selector.select(5)
        key.data()

        assert asked == [1]
        assert selector.select(0) == []
    assert signal.getsignal(signal.SIGTERM) == before


def test_under_nohup_the_end_of_the_terminal_is_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with wakeup.signals(selectors.DefaultSelector(), lambda: None):
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
