"""Out to the thread and back: one key, one wait, one finish (A18-A24, A30, A35-A39)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from tests import drive, factories, hands
from threads import gates, points, services
from threads.locking import bot_author, locked
from threads.models import Bot, Entry, Gate, Turn
from workflows import documents, seams, selectors
from workflows.engine import advance
from workflows.models import Checkpoint, Event, Run, RunThread
from workflows.services import Start, spawn_run

TWO = (factories.command("build", "make"), factories.command("ship", "make ship"))


@pytest.fixture
def run(house, alice):
    flow = factories.workflow(house, *TWO)
    return hands.go_on(spawn_run(flow, start=Start(by=alice)).run)


def start(house, *steps):
    return hands.go_on(spawn_run(factories.workflow(house, *steps)).run)


def test_the_mapping_says_what_a_run_waits_on(house):
    turn = hands.wait_of(start(house, factories.command("build")))
    gate = hands.wait_of(start(house, factories.gate("ship")))
    time = hands.wait_of(start(house, factories.sleep("rest")))

    assert (turn.await_kind, gate.await_kind, time.await_kind) == (
        "turn",
        "gate",
        "time",
    )
    assert turn.await_turn == Turn.objects.get()
    assert gate.await_gate == Gate.objects.get()
    for wait in (turn, gate, time):
        assert wait.awaiting
        assert wait.await_started_at is not None
        assert wait.await_key == f"wf.step.done:{wait.run_id}:0"
        assert wait.worker_bot.handle == "runner"
        assert wait.queue == "steps"
    assert [time.await_turn, time.await_gate] == [None, None]
    assert [gate.await_turn, turn.await_gate] == [None, None]


def test_a_settled_run_waits_for_nothing(run):
    hands.answer(run)
    hands.answer(run)

    assert run.state == "completed"
    assert not hands.wait_of(run).awaiting


def test_each_send_replaces_the_key_and_its_anchor(run):
    first = hands.wait_of(run)

    hands.answer(run)

    second = hands.wait_of(run)
    assert (first.await_key, second.await_key) == (
        f"wf.step.done:{run.pk}:0",
        f"wf.step.done:{run.pk}:1",
    )
    assert second.await_turn_id != first.await_turn_id
    assert second.await_started_at != first.await_started_at


def test_no_step_begins_before_the_one_ahead_has_ended(run):
    assert drive.steps(run) == [("build", "waiting")]
    hands.go_on(run)
    assert Turn.objects.count() == 1

    hands.answer(run)

    assert drive.steps(run) == [("build", "completed"), ("ship", "waiting")]


def test_a_settled_turn_moves_its_run_in_the_same_transaction(run):
    turn = hands.take(run)

    hands.end(turn, output="built\n")

    run.refresh_from_db()
    assert (run.state, run.position) == ("pending", 1)
    event = Event.objects.get()
    assert (event.name, event.key) == (f"wf.step.done:{run.pk}:0", str(run.pk))
    assert drive.steps(run) == [("build", "completed")]
    assert [body for *_, body in drive.entries(run)] == [
        "Started by alice.", "make", "dispatch.started", "built\n", "dispatch.completed",
    ]  # fmt: skip


def test_a_completion_comes_too_late_to_replace_the_first(run):
    turn = hands.take(run)
    hands.end(turn, output="first")
    with locked(drive.thread_of(run)) as thread:
        wait = RunThread.objects.get(run=run)
        turn.state = "failed"
        seams.turn_settled(turn=turn, thread=thread)
        seams.finish(thread, wait, seams.Back("failed", "second"))

    assert Event.objects.get().payload == {"state": "completed", "reason": ""}
    assert Checkpoint.objects.get().result == {
        "output": "first", "exit_code": 0, "truncated": 0,
    }  # fmt: skip


def test_an_event_emitted_before_the_step_began_keeps_its_first_words(house, run):
    Event.objects.create(
        house=house, name=f"wf.step.done:{run.pk}:0", key=str(run.pk), payload={"x": 1}
    )

    hands.answer(run)

    assert Event.objects.get(name__endswith=":0").payload == {"x": 1}
    assert drive.steps(run)[0] == ("build", "completed")


def test_a_late_finisher_cannot_clear_a_newer_step(run):
    late = hands.take(run)
    hands.end(late, output="first")
    hands.go_on(run)
    newer = hands.wait_of(run)

    with locked(drive.thread_of(run)) as thread:
        seams.turn_settled(turn=late, thread=thread)

    run.refresh_from_db()
    assert run.state == "waiting"
    assert hands.wait_of(run).awaiting
    assert hands.wait_of(run).await_key == newer.await_key
    assert drive.steps(run)[1] == ("ship", "waiting")


def test_a_finisher_with_an_old_key_finds_it_gone(run):
    old = hands.wait_of(run)
    hands.answer(run)
    with locked(drive.thread_of(run)) as thread:
        moved = seams.finish(thread, old, seams.Back("failed", "too late"))

    assert not moved
    run.refresh_from_db()
    assert (run.state, run.position, run.failure) == ("waiting", 1, None)
    assert hands.wait_of(run).awaiting
    assert drive.steps(run) == [("build", "completed"), ("ship", "waiting")]


@pytest.mark.django_db(transaction=True)
def test_a_turn_that_can_be_seen_already_has_its_waiter(house, monkeypatch):
    run = spawn_run(factories.workflow(house, *TWO)).run
    seen = []

    def peek(place):
        if place == "send":
            with ThreadPoolExecutor(1) as pool:
                seen.append(pool.submit(elsewhere).result())

    def elsewhere():
        try:
            return Turn.objects.count(), RunThread.objects.filter(awaiting=True).count()
        finally:
            connection.close()

    monkeypatch.setattr(points, "written", peek)
    hands.go_on(run)

    assert seen == [(0, 0)]
    assert elsewhere() == (1, 1)
    assert hands.end(hands.take(run))
    run.refresh_from_db()
    assert run.position == 1


def test_a_reply_to_a_gate_moves_the_run_at_once_and_starts_no_turn(house, alice):
    run = start(house, factories.gate("ship", "Ship it?"), factories.sleep("rest"))

    spoken = gates.speak(drive.thread_of(run), person=alice, text="go on? yes")
    assert spoken.understood is None
    spoken = gates.speak(drive.thread_of(run), person=alice, text="yes")

    assert spoken.understood == "approved"
    run.refresh_from_db()
    assert (run.state, run.position) == ("pending", 1)
    assert not Turn.objects.exists()


def test_a_reply_posts_the_run_a_ticket(
    house, alice, posted, django_capture_on_commit_callbacks
):
    run = start(house, factories.gate("ship"))
    with django_capture_on_commit_callbacks(execute=True):
        gates.speak(drive.thread_of(run), person=alice, text="yes")

    assert posted == [("workflows.advance", "steps", "steps", str(run.pk))]


def test_each_entry_is_written_by_who_said_it(house, alice):
    run = start(
        house, factories.command("build", "make"), factories.gate("ship", "Ship?")
    )
    hands.answer(run, output="built")
    gates.speak(drive.thread_of(run), person=alice, text="👍")
    hands.go_on(run)

    rows = Entry.objects.filter(thread=drive.thread_of(run)).order_by("number")
    assert [(e.author_kind, e.author_name, e.kind, e.body) for e in rows] == [
        ("system", "System", "note", "Started by System."),
        ("system", "System", "instruction", "make"),
        ("bot", "runner", "signal", "dispatch.started"),
        ("bot", "runner", "message", "built"),
        ("bot", "runner", "signal", "dispatch.completed"),
        ("system", "System", "instruction", "Ship?"),
        ("person", "alice", "answer", "👍"),
        ("system", "System", "note", "Understood as approved by alice."),
        ("system", "System", "note", "Completed."),
    ]
    assert [e.number for e in rows] == list(range(1, 10))


def test_commands_get_a_key_that_is_stable_for_the_step(run):
    turn = Turn.objects.get()

    assert turn.key == f"{run.pk}:0"
    assert turn.spec["env"] == {
        "THREADWORK_RUN": str(run.pk),
        "THREADWORK_STEP": "build",
        "THREADWORK_KEY": f"{run.pk}:0",
    }


def test_the_key_stays_the_same_when_a_dead_worker_is_replaced(run):
    before = hands.take(run)
    hands.die("worker-turns")
    assert services.reclaim_turn(before.pk)

    after = hands.take(run, role="worker-turns-2")

    assert after.pk == before.pk
    assert after.spec["env"]["THREADWORK_KEY"] == before.spec["env"]["THREADWORK_KEY"]
    assert (after.attempts, after.crashes) == (2, 1)


def test_the_run_goes_on_from_its_rows_even_where_its_thread_is_emptied(
    house, alice, run
):
    hands.answer(run, output="built")
    hands.sql("SET LOCAL threadwork.retention = 'on'")
    hands.sql("DELETE FROM threads_entry")
    hands.sql("SET LOCAL threadwork.retention = 'off'")

    hands.answer(run, output="shipped")

    assert run.state == "completed"
    assert drive.steps(run) == [("build", "completed"), ("ship", "completed")]


def test_words_that_look_like_a_signal_move_nothing(house, run):
    bot = Bot.objects.get(house=house)
    services.append_entry(
        drive.thread_of(run),
        "dispatch.completed",
        author=bot_author(bot),
        kind="signal",
        data={"signal": "dispatch.completed"},
    )

    run.refresh_from_db()
    assert run.state == "waiting"
    assert Turn.objects.get().state == "pending"


def test_a_run_can_be_read_in_mid_flight(run):
    hands.answer(run, output="built")
    read = documents.run(run)

    assert [step["state"] for step in read["steps"]] == ["completed", "waiting"]
    assert all(step["started_at"].endswith("Z") for step in read["steps"])
    assert read["steps"][0]["finished_at"].endswith("Z")
    assert read["steps"][1]["finished_at"] is None
    assert read["attempt_log"] == [
        {**read["attempt_log"][0], "number": 1, "ended_at": None, "ended": None}
    ]
    assert [event["name"] for event in read["events"]] == [f"wf.step.done:{run.pk}:0"]
    assert read["waiting_for"]["kind"] == "turn"


def test_any_worker_goes_on_where_another_stopped(house, alice):
    """B14: nothing that must hold lies in a process's memory."""
    run = spawn_run(factories.workflow(house, *TWO, factories.gate("ok"))).run

    def another_process(number):
        selectors.plan_steps.cache_clear()
        selectors.step_at.cache_clear()
        advance.advance(pool="steps", holder=drive.holder(f"steps-{number}"))

    for number in range(2):
        another_process(number)
        hands.end(hands.take(run, role=f"turns-{number}"))
    another_process(3)
    gates.speak(drive.thread_of(run), person=alice, text="yes")
    another_process(4)

    assert Run.objects.get().state == "completed"


def test_a_new_workflow_is_a_row_and_no_deploy(house, alice, calls):
    """A45: one handler interprets every recipe."""
    kinds = [
        factories.call("a", "work", args={"value": 1}),
        factories.gate("b"),
        factories.command("c"),
        factories.prompt("d"),
        factories.sleep("e", 0),
    ]
    for number, first in enumerate(kinds):
        steps = [*kinds[number:], *kinds[:number]]
        run = start_named(house, f"flow-{number}", steps)
        gates.speak(drive.thread_of(run), person=alice, text="yes")
        finish(run)
        assert first["name"] == drive.steps(run)[0][0]
        assert [state for _, state in drive.steps(run)] == ["completed"] * 5
        assert Run.objects.get(pk=run.pk).state == "completed"


def start_named(house, slug, steps):
    run = spawn_run(factories.workflow(house, *steps, slug=slug)).run
    finish(run)
    return run


def finish(run) -> None:
    """Carry a run on as far as it goes without a person."""
    hands.go_on(run)
    while hands.wait_of(run).await_kind == "turn" and hands.wait_of(run).awaiting:
        hands.answer(run)
