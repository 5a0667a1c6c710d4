"""A worker whose run or turn was taken over can no longer write anything (A37, B9)."""

from __future__ import annotations

import pytest
from django.db.models import Q

from tests import drive, factories, hands
from threads import burial, services
from threads.locking import locked
from threads.models import Entry, Thread, Turn, TurnMessage
from workflows import journal, parking, settling
from workflows.engine import advance, claims
from workflows.journal import Ended, Held, Line
from workflows.models import Attempt, Checkpoint, Event, Run, RunThread
from workflows.parking import Park
from workflows.services import look, spawn_run

STEPS = (factories.gate("ship", "Ship it?"), factories.command("build", "make"))
ENDED = Ended("ship", "human_gate", "completed", lines=[Line("I was first")])


@pytest.fixture
def run(house):
    return spawn_run(factories.workflow(house, *STEPS)).run


@pytest.fixture
def zombie(run) -> Held:
    """A worker that was stopped for so long that its run went to another."""
    held = hands.hold(run)
    hands.die()
    assert look(run.pk)
    newer = claims.claim(pool="steps", holder=drive.holder("another"), hint=run.pk)
    assert newer is not None
    assert newer.attempts == held.attempts + 1
    return held


@pytest.fixture
def lost(house) -> Turn:
    """A turn in the hands of a worker that was taken for dead."""
    flow = factories.workflow(house, factories.command("build", "make"), slug="cmd")
    run = hands.go_on(spawn_run(flow).run)
    turn = hands.take(run)
    hands.die("worker-turns")
    assert services.reclaim_turn(turn.pk)
    hands.take(run, role="another")
    return turn


def everything():
    """All that a write could have changed, thread numbers included."""
    models = (Run, RunThread, Checkpoint, Attempt, Entry, Turn, TurnMessage, Event)
    rows = [list(model.objects.order_by("pk").values()) for model in models]
    return rows, list(Thread.objects.order_by("pk").values("id", "last_number"))


def test_a_zombie_records_nothing(zombie):
    before = everything()

    assert not journal.record(zombie, ENDED)

    assert everything() == before


def test_a_zombie_parks_nothing(zombie):
    before = everything()

    with locked(zombie.thread) as thread:
        assert parking.park(zombie, Park("time", "k", seconds=9)) == (False, None)
        thread.flush()

    assert everything() == before


@pytest.mark.parametrize(
    ("kind", "step"),
    [(factories.command, "send"), (factories.gate, "ask"), (factories.sleep, "rest")],
)
def test_a_zombie_that_wanted_to_wait_leaves_no_entry_turn_or_gate(house, kind, step):
    run = spawn_run(factories.workflow(house, kind(step))).run
    held = hands.hold(run)
    hands.die()
    look(run.pk)
    claims.claim(pool="steps", holder=drive.holder("another"), hint=run.pk)
    before = everything()

    advance.carry(held, end=float("inf"))

    assert everything() == before


def test_a_zombie_settles_nothing(zombie, run):
    before = everything()

    with locked(zombie.thread) as thread:
        settled = settling.settle(
            thread, run, state="completed", guard=zombie.fence(), words="Completed."
        )

    assert not settled
    assert everything() == before


def test_a_zombie_releases_nothing(zombie):
    before = everything()

    assert not journal.release(zombie)

    assert everything() == before


def test_a_zombie_cancels_nothing(zombie, run):
    before = everything()

    with locked(zombie.thread) as thread:
        assert not settling.stop(thread, run, guard=zombie.fence())

    assert everything() == before


def test_a_lost_turn_settles_nothing(lost):
    before = everything()

    assert not hands.end(lost, output="too late")

    assert everything() == before


def test_a_lost_turn_logs_nothing(lost):
    assert services.log_message(lost, kind="output", body={"text": "late"}) is None
    assert not TurnMessage.objects.exists()


@pytest.mark.parametrize("fault", ["", "overloaded"])
def test_a_lost_turn_hands_nothing_back(lost, fault):
    before = everything()

    assert not services.release_turn(lost, fault=fault)

    assert everything() == before


def test_the_new_holder_goes_on_and_numbers_have_no_gap(zombie, run, alice):
    journal.record(zombie, ENDED)
    held = Held(**{**vars(zombie), "attempts": 2, "holder": drive.holder("another")})

    assert journal.record(held, ENDED)

    assert [(n, body) for n, _, _, body in drive.entries(run)] == [
        (1, "Started by System."),
        (2, "I was first"),
    ]


def test_a_claim_is_extended_by_what_it_writes(run):
    held = hands.hold(run)
    Run.objects.update(held_until=None)

    journal.record(held, ENDED)

    run.refresh_from_db()
    assert run.held_until is not None


def test_a_run_in_hand_is_not_claimed_twice(run):
    hands.hold(run)

    assert claims.claim(pool="steps", holder=drive.holder("two"), hint=run.pk) is None


@pytest.mark.django_db(transaction=True)
def test_of_many_claimers_one_gets_the_run(house):
    runs = [spawn_run(factories.workflow(house, *STEPS)).run for _ in range(3)]
    holders = [drive.holder(f"w{number}") for number in range(8)]

    got = hands.together(8, lambda n: claims.claim(pool="steps", holder=holders[n]))

    assert sorted(held.id for held in got if held) == sorted(run.pk for run in runs)


def test_a_lease_that_ran_out_is_taken_even_from_the_living(run):
    held = hands.hold(run)
    assert not look(run.pk)
    hands.sql("UPDATE workflows_run SET held_until = now() - interval '1 second'")

    assert look(run.pk)

    run.refresh_from_db()
    assert (run.state, run.attempts, run.crashes) == ("pending", 2, 1)
    assert not journal.record(held, ENDED)


def test_a_living_worker_loses_nothing(run):
    hands.hold(run)

    assert not look(run.pk)

    run.refresh_from_db()
    assert (run.state, run.crashes) == ("running", 0)


def test_a_reclaim_names_the_holder_it_saw(run, house):
    hands.hold(run)
    seen = Run.objects.get(pk=run.pk)
    hands.die()
    look(run.pk)
    claims.claim(pool="steps", holder=drive.holder("another"), hint=run.pk)
    hands.die("another")

    with locked(drive.thread_of(run)) as thread:
        assert not settling.reclaim(thread, seen)

    run.refresh_from_db()
    assert run.crashes == 1


def test_a_dead_turn_worker_counts_on_the_turn_and_is_bounded(house, settings):
    settings.TURN_RECLAIMS = 2
    flow = factories.workflow(house, factories.command("build"))
    run = hands.go_on(spawn_run(flow).run)
    for number in range(3):
        turn = hands.take(run, role=f"w{number}")
        hands.die(f"w{number}")
        assert services.reclaim_turn(turn.pk)
        assert not services.reclaim_turn(turn.pk)

    hands.go_on(run)

    assert run.failure == {
        "step": "build",
        "reason": "the worker died 3 times while running it",
    }
    assert run.attempts == 1


def test_a_stamp_is_written_once(db):
    pulse = drive.holder("once")

    assert burial.stamp([pulse]) == [pulse]
    assert burial.stamp([pulse]) == []


def test_a_turn_settled_past_its_worker_stays_as_it_is(lost):
    turn = Turn.objects.get(pk=lost.pk)
    ending = services.Ending("cancelled", "it was stopped")
    assert services.settle_turn(turn, ending, guard=Q(state="running"))

    assert not hands.end(turn, output="done after all")

    turn.refresh_from_db()
    assert turn.state == "cancelled"
