from __future__ import annotations

from typing import Any

import pytest

from tests import drive, factories
from threads import services as thread_services
from threads.models import TurnMessage
from workflows import services
from workflows.cli import following
from workflows.engine import advance
from workflows.selectors import Progress
from workflows.services import Start, spawn_run


@pytest.fixture
def at_work(house, alice) -> Any:
    """A run whose command a worker has begun, and the turn that it is."""
    flow = factories.workflow(house, factories.command("checks", "make test"))
    run = spawn_run(flow, start=Start(by=alice)).run
    advance.advance(pool="steps", holder=drive.holder(), hint=run.pk)
    return run, drive.begun_turn(run)


@pytest.fixture
def acted(monkeypatch):
    """Let things happen one by one, each between two looks of the one who follows."""

    def between(*acts: Any) -> None:
        # The command looks once itself; at its first round it meets the turn.
        left = [lambda: None, lambda: None, *acts]

        def look(run_id: Any) -> bool:
            if left:
                left.pop(0)()
            return True

        monkeypatch.setattr(following, "LOOK_SECONDS", 0)
        monkeypatch.setattr(following, "TICK_SECONDS", 0.001)
        monkeypatch.setattr(services, "look", look)

    return between


def ended_with(run, turn, output, *, state="failed", reason="exited with status 1"):
    """Return how a worker ends the turn, and what follows of it."""

    def act() -> None:
        ending = thread_services.Ending(state, reason, output, {"output": output})
        guard = thread_services.held_by(turn)
        assert thread_services.settle_turn(turn, ending, guard=guard)
        drive.carry(run)

    return act


def without_times(ended):
    return [
        line[10:] if line[2:3] == ":" else line for line in ended.stdout.splitlines()
    ]


def test_following_shows_output_as_it_comes_and_only_once(wf, at_work, acted):
    run, turn = at_work
    acted(
        lambda: drive.write(turn, "one\ntw"),
        lambda: drive.write(turn, "o\n10%\r20%\r\n", "par"),
        ended_with(run, turn, "one\ntwo\n10%\r20%\r\npartly\nlast"),
    )

    lines = without_times(wf("show", run.pk, "--follow"))
    shown = lines[lines.index("runner began") :]

    assert shown[:10] == [
        "runner began",
        "    │ one",
        "    │ two",
        "    │ 20%",
        "    │ partly",
        "    │ last",
        "runner (output above)",
        "runner failed: exited with status 1",
        "System: Failed at checks: exited with status 1",
        "",
    ]


def test_following_shows_the_whole_output_where_it_was_not_all_shown(
    wf, at_work, acted
):
    run, turn = at_work
    acted(
        lambda: drive.write(turn, "one\ntwo\n"),
        ended_with(run, turn, "one\n[… cut …]\nlast"),
    )

    ended = wf("show", run.pk, "--follow").stdout

    assert "    │ two" in ended
    assert "[… cut …]" in ended
    assert "(output above)" not in ended


def test_following_a_bot_shows_its_moves_and_then_its_answer(wf, at_work, acted):
    run, turn = at_work
    acted(
        lambda: drive.write(turn, "Let me look", kind="model", move="call"),
        lambda: drive.write(turn, "It is fine", kind="model", move="final"),
        ended_with(run, turn, "It is fine", state="succeeded", reason=""),
    )

    ended = wf("show", run.pk, "--follow").stdout

    assert ended.count("│ Let me look") == 1
    assert ended.count("It is fine") == 1
    assert "(output above)" not in ended


def test_output_of_an_earlier_try_does_not_hide_what_was_shown_of_this_one(
    wf, at_work, acted
):
    run, turn = at_work
    acted(
        lambda: drive.write(turn, "one\n"),
        lambda: drive.write(turn, "one\ntwo\n"),
        ended_with(run, turn, "one\ntwo"),
    )

    ended = wf("show", run.pk, "--follow").stdout

    assert ended.count("two") == 1
    assert "(output above)" in ended


def test_a_real_command_writes_what_its_entry_begins_with(house, alice):
    script = (
        "printf '\\033[31mré\\033[0m\\r\\n\\n'; sleep 1.2; echo two; sleep .1; echo end"
    )
    flow = factories.workflow(house, factories.command("checks", script))
    run = drive.carry(spawn_run(flow, start=Start(by=alice)).run)
    rows = TurnMessage.objects.filter(turn__thread=drive.thread_of(run))
    found = Progress(
        rows[0].turn_id, 1, tuple((row.kind, row.body["text"]) for row in rows)
    )
    stream = following.Stream(found.turn)

    stream.take(found)
    body = next(body for _, _, kind, body in drive.entries(run) if kind == "message")

    assert "ré" in stream.shown
    assert stream.rest(body) == ["end"]


def test_show_has_the_end_of_what_is_at_work(wf, at_work):
    run, turn = at_work
    drive.write(turn, *(f"line {number}\n" for number in range(100)))

    shown = wf("show", run.pk).stdout

    assert shown.endswith("    │ line 98\n    │ line 99\n")
    assert "line 50\n" not in shown


def test_a_stopped_command_is_said_to_be_so_once(wf, at_work, alice):
    run, turn = at_work
    ended_with(run, turn, "so far", state="cancelled", reason="it was stopped")()

    assert "  runner stopped\n" in wf("show", run.pk).stdout
