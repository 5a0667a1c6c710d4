"""Reading one run mends what a crash left between two writes, and only once (B18, A25)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests import drive, factories, hands
from threads import gates, notices
from threads.models import Entry, Gate, Turn
from workflows import sweep
from workflows.engine.conductor import Conductor
from workflows.models import Attempt, Checkpoint, Event, Run, RunThread
from workflows.services import look, spawn_run


def start(house, *steps, **more):
    return hands.go_on(spawn_run(factories.workflow(house, *steps, **more)).run)


def state_of(run):
    models = (Run, RunThread, Checkpoint, Attempt, Entry, Turn, Gate, Event)
    return [list(model.objects.order_by("pk").values()) for model in models]


@pytest.fixture
def settled_unseen(house):
    """A turn that settled where nobody told the run: as if a crash lay between."""
    run = start(house, factories.command("build"), factories.gate("ship"))
    hands.take(run)
    hands.sql(
        "UPDATE threads_turn SET state = 'succeeded', holder = NULL, held_until = NULL,"
        " due_at = NULL, ended_at = now(),"
        """ result = '{"output": "built", "exit_code": 0, "truncated": 0}'"""
    )
    return run


@pytest.fixture
def answered_unseen(house, alice, monkeypatch):
    """A gate that closed where nobody told the run."""
    run = start(house, factories.gate("ship"))
    with monkeypatch.context() as deaf:
        deaf.setattr(notices.gate_decided, "receivers", [])
        notices.gate_decided.sender_receivers_cache.clear()
        gates.decide(
            drive.open_gate(run).pk, person=alice, answer="approve", door="page"
        )
    notices.gate_decided.sender_receivers_cache.clear()
    return run


def test_a_turn_that_settled_unseen_finishes_its_step(settled_unseen):
    run = settled_unseen

    assert look(run.pk)

    run.refresh_from_db()
    assert (run.state, run.position) == ("pending", 1)
    assert drive.steps(run) == [("build", "completed")]
    assert Checkpoint.objects.get().result["output"] == "built"  # type: ignore[index]
    assert hands.go_on(run).state == "waiting"


def test_a_gate_that_closed_unseen_finishes_its_step(answered_unseen):
    run = answered_unseen
    assert run.state == "waiting"

    assert look(run.pk)

    assert hands.go_on(run).state == "completed"


@pytest.mark.parametrize("trouble", ["settled_unseen", "answered_unseen"])
def test_a_second_look_changes_nothing(request, trouble):
    run = request.getfixturevalue(trouble)
    look(run.pk)
    before = state_of(run)

    assert not look(run.pk)

    assert state_of(run) == before


def test_a_look_at_a_healthy_run_changes_nothing(house):
    for number, step in enumerate(
        [
            factories.command("a"),
            factories.gate("b", deadline="1h"),
            factories.sleep("c"),
        ]
    ):
        run = start(house, step, slug=f"flow-{number}")
        before = state_of(run)

        assert not look(run.pk)

        assert state_of(run) == before


def test_a_run_whose_worker_died_goes_on_to_the_next(house):
    run = spawn_run(factories.workflow(house, factories.gate("ship"))).run
    hands.hold(run)
    hands.die()

    assert look(run.pk)
    assert not look(run.pk)

    run.refresh_from_db()
    assert (run.state, run.attempts) == ("pending", 2)


def test_a_turn_whose_worker_died_goes_on_to_the_next(house):
    run = start(house, factories.command("build"))
    hands.take(run)
    hands.die("worker-turns")

    assert look(run.pk)
    assert not look(run.pk)

    turn = Turn.objects.get()
    assert (turn.state, turn.crashes) == ("pending", 1)
    assert drive.bodies(run) == ["Started by System.", "true", "dispatch.started"]


def test_a_turn_past_its_deadline_fails_its_step(house):
    run = start(house, factories.command("build", timeout="90s"))
    turn = hands.take(run)
    drive.late(run, by=timedelta(hours=1))

    assert look(run.pk)

    hands.go_on(run)
    assert run.failure == {"step": "build", "reason": "it took longer than 90 s"}
    assert not hands.end(turn)


def test_an_overdue_sleeper_wakes(house):
    run = start(house, factories.sleep("rest", 3600))
    assert not look(run.pk)
    drive.late(run, by=timedelta(hours=2))

    assert look(run.pk)
    assert not look(run.pk)

    assert hands.go_on(run).state == "completed"


def test_an_overdue_gate_gets_its_outcome(house):
    run = start(house, factories.gate("ship", deadline="1h", on_deadline="approve"))
    drive.late(run, by=timedelta(hours=2))

    assert look(run.pk)
    assert not look(run.pk)

    assert hands.go_on(run).state == "completed"
    assert Gate.objects.get().closed_by == "the deadline"


def test_a_settled_run_is_left_alone(house, alice):
    run = start(house, factories.gate("ship"))
    gates.speak(drive.thread_of(run), person=alice, text="yes")
    hands.go_on(run)
    before = state_of(run)

    assert not look(run.pk)

    assert state_of(run) == before


def test_a_run_that_stands_ready_too_long_gets_another_ticket(
    house, posted, django_capture_on_commit_callbacks
):
    run = spawn_run(factories.workflow(house, factories.gate("ship"))).run
    hands.sql("UPDATE workflows_run SET ready_at = now() - interval '3 s'")

    with django_capture_on_commit_callbacks(execute=True):
        assert not look(run.pk)

    assert posted == [("workflows.advance", "steps", "steps", str(run.pk))]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("trouble", ["settled_unseen", "answered_unseen"])
def test_many_looks_at_once_mend_once(request, trouble):
    run = request.getfixturevalue(trouble)

    hands.together(6, lambda _: look(run.pk))

    run.refresh_from_db()
    assert (run.state, run.position) == ("pending", 1)
    assert Event.objects.count() == 1
    assert [n for n, *_ in drive.entries(run)] == list(
        range(1, Entry.objects.count() + 1)
    )


@pytest.mark.django_db(transaction=True)
def test_many_looks_at_a_dead_workers_run_count_one_crash(house):
    run = spawn_run(factories.workflow(house, factories.gate("ship"))).run
    hands.hold(run)
    hands.die()

    mended = hands.together(6, lambda _: look(run.pk))

    run.refresh_from_db()
    assert sum(mended) == 1
    assert (run.crashes, run.attempts) == (1, 2)


def test_the_sweep_mends_all_of_them_and_leaves_the_others(
    house, settled_unseen, alice
):
    asleep = start(house, factories.sleep("rest"), slug="asleep")
    drive.late(asleep, by=timedelta(days=1))
    overdue = start(house, factories.gate("ask", deadline="1h"), slug="overdue")
    drive.late(overdue, by=timedelta(days=1))
    healthy = start(house, factories.gate("ask"), slug="healthy")
    orphan = spawn_run(
        factories.workflow(house, factories.gate("ask"), slug="orphan")
    ).run
    hands.hold(orphan)
    hands.die()

    assert sweep.sweep() == 4
    assert sweep.sweep() == 0

    for run in (settled_unseen, asleep, overdue, orphan):
        run.refresh_from_db()
        assert run.state == "pending"
    healthy.refresh_from_db()
    assert healthy.state == "waiting"


def test_one_run_that_cannot_be_checked_does_not_stop_the_sweep(house, monkeypatch):
    first = start(house, factories.sleep("rest"), slug="one")
    second = start(house, factories.sleep("rest"), slug="two")
    for run in (first, second):
        drive.late(run, by=timedelta(days=1))

    def broken(run_id):
        if run_id == first.pk:
            raise RuntimeError("no such luck")
        return look(run_id)

    monkeypatch.setattr("workflows.sweep.reconcile.look", broken)

    assert sweep.sweep() == 1
    second.refresh_from_db()
    assert second.state == "pending"


def test_a_sweep_looks_at_every_wait_page_by_page(answered_unseen, house, monkeypatch):
    monkeypatch.setattr(sweep, "ROWS", 2)
    flow = factories.workflow(house, factories.gate("ask"), slug="many")
    waiting = [hands.go_on(spawn_run(flow).run) for _ in range(5)]
    hands.sql(
        "UPDATE threads_gate SET state = 'closed', outcome = 'approved',"
        " closed_at = now() WHERE state = 'open'"
    )

    assert sweep.sweep() == 6

    for run in [answered_unseen, *waiting]:
        assert hands.go_on(run).state == "completed"


def test_where_beat_alone_sweeps_it_looks_at_every_page(
    answered_unseen, house, monkeypatch
):
    monkeypatch.setattr(sweep, "ROWS", 1)
    flow = factories.workflow(house, factories.gate("ask"), slug="many")
    for _ in range(3):
        hands.go_on(spawn_run(flow).run)
    hands.sql(
        "UPDATE threads_gate SET state = 'closed', outcome = 'approved',"
        " closed_at = now() WHERE state = 'open'"
    )

    Conductor().turn_all()

    assert not Run.objects.filter(state="waiting").exists()
