"""Turns: one open for a bot in a thread, progress written as it happens (B11-B13, B17)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from django.db import connection, transaction
from django.db.models import Q

from tests import drive, factories, hands
from threads import gates, services
from threads.locking import locked
from threads.models import Bot, Entry, Turn, TurnMessage
from threads.runtime import turns
from threads.runtime.faults import Fault
from threads.services import Ask, Ending
from workflows.services import spawn_run

ASK = Ask(what="prompt", instruction="Look into it", key="k")


@pytest.fixture
def bot(house):
    return Bot.objects.select_related("house").get(house=house)


@pytest.fixture
def single(bot):
    Bot.objects.update(single=True)
    bot.refresh_from_db()
    return bot


def room(bot):
    return services.open_thread(bot.house, title="A room", bot=bot)


def ask(thread, bot):
    with locked(thread.pk) as open_thread:
        return services.ask_for_turn(open_thread, bot=bot, ask=ASK)


def test_whoever_asks_second_gets_the_turn_that_is_open(bot):
    thread = room(bot)
    first, new = ask(thread, bot)
    assert new

    assert ask(thread, bot) == (first, False)

    assert Turn.objects.count() == 1
    assert [e.body for e in Entry.objects.all()] == ["dispatch.started"]


def test_a_settled_turn_makes_room_for_the_next(bot):
    thread = room(bot)
    first, _ = ask(thread, bot)
    services.settle_turn(first, Ending("cancelled"), guard=Q())

    second, new = ask(thread, bot)

    assert new
    assert second.pk != first.pk


def test_a_bot_may_answer_in_many_rooms_at_once(bot):
    assert ask(room(bot), bot)[1]
    assert ask(room(bot), bot)[1]


def test_a_single_bot_answers_one_room_at_a_time(single):
    first, _ = ask(room(single), single)

    assert ask(room(single), single) == (first, False)


def test_a_single_bot_still_works_for_runs(house, single):
    ask(room(single), single)
    flow = factories.workflow(house, factories.prompt("look"))

    assert hands.go_on(spawn_run(flow).run).state == "waiting"
    assert Turn.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_of_many_who_ask_at_once_all_get_the_one_turn(bot):
    thread = room(bot)

    got = hands.together(10, lambda _: ask(thread, bot))

    assert len({turn.pk for turn, _ in got}) == 1
    assert sum(new for _, new in got) == 1


@pytest.mark.django_db(transaction=True)
def test_of_many_rooms_that_ask_a_single_bot_one_is_new(single):
    rooms = [room(single) for _ in range(8)]

    got = hands.together(8, lambda number: ask(rooms[number], single))

    assert len({turn.pk for turn, _ in got}) == 1
    assert sum(new for _, new in got) == 1
    assert Entry.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_single_bot_that_gets_free_while_it_is_asked_is_new_again(
    single, monkeypatch
):
    """The other room's turn settles between the refused insert and the look at it."""
    first, _ = ask(room(single), single)
    active = Turn.objects.active
    settled = Event()

    def settles_first():
        if not settled.is_set():
            settled.set()
            with ThreadPoolExecutor(1) as pool:
                pool.submit(settle, first).result()
        return active()

    monkeypatch.setattr(Turn.objects, "active", settles_first)

    second, new = ask(room(single), single)

    assert settled.is_set()
    assert new
    assert Turn.objects.filter(pk=second.pk, state="pending").exists()


def settle(turn):
    try:
        hands.sql(
            "UPDATE threads_turn SET state = 'cancelled', ended_at = now()"
            " WHERE id = %s",
            turn.pk,
        )
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_progress_can_be_read_while_the_turn_still_runs(house):
    run = hands.go_on(
        spawn_run(factories.workflow(house, factories.command("build"))).run
    )
    turn = hands.take(run)

    for words in ("compiling", "linking"):
        services.log_message(turn, kind="output", body={"text": words})

    (seen,) = hands.together(
        1, lambda _: list(TurnMessage.objects.values("number", "body"))
    )
    assert seen == [
        {"number": 1, "body": {"text": "compiling"}},
        {"number": 2, "body": {"text": "linking"}},
    ]


def prompted(house):
    run = hands.go_on(
        spawn_run(factories.workflow(house, factories.prompt("look"))).run
    )
    return run, hands.take(run)


def test_words_in_mid_turn_are_put_where_the_bot_hears_them(house, alice):
    run, turn = prompted(house)
    services.log_message(turn, kind="model", body={"move": "call"})

    spoken = gates.speak(drive.thread_of(run), person=alice, text="mind the cache")

    assert spoken.understood is None
    heard = TurnMessage.objects.get(kind="person")
    assert (heard.number, heard.body) == (2, {"text": "mind the cache"})
    assert drive.bodies(run)[-2:] == [
        "mind the cache", "runner hears that at its next step.",
    ]  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_a_person_and_a_bot_may_write_to_the_log_at_one_moment(house, alice):
    run, turn = prompted(house)
    thread = drive.thread_of(run)

    def speaks():
        try:
            return gates.speak(thread, person=alice, text="mind the cache")
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            services.log_message(turn, kind="model", body={"move": "call"})
            spoken = pool.submit(speaks)
            drive_until_blocked()
        assert spoken.result(20).number

    numbers = TurnMessage.objects.order_by("number").values_list("number", "kind")
    assert list(numbers) == [(1, "model"), (2, "person")]


def drive_until_blocked():
    """Wait until somebody waits for a lock of ours."""
    for _ in range(500):
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid"
                " FROM pg_stat_activity WHERE datname = current_database())"
            )
            if cursor.fetchone()[0]:
                return
            cursor.execute("SELECT pg_sleep(0.01)")
    raise AssertionError("nobody waits")


@pytest.mark.django_db(transaction=True)
def test_people_and_records_share_a_threads_numbers_without_a_gap(house, calls):
    steps = [
        factories.call(f"s{number}", "work", args={"value": 1}) for number in range(8)
    ]
    run = spawn_run(factories.workflow(house, *steps)).run
    people = [factories.member(house, f"person-{number}") for number in range(4)]
    thread = drive.thread_of(run)

    def act(number):
        if not number:
            return hands.go_on(run).state
        for _ in range(4):
            gates.speak(thread, person=people[number - 1], text="hello")
        return ""

    drive.holder()
    hands.together(5, act)

    numbers = [number for number, *_ in drive.entries(run)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert drive.bodies(run).count("hello") == 16
    assert hands.go_on(run).state == "completed"


def test_a_fault_puts_the_next_try_on_the_row_and_two_are_the_most(house):
    run, turn = prompted(house)

    assert turns.again(turn, Fault("overloaded")) is None
    turn.refresh_from_db()
    assert (turn.state, turn.faults, turn.reason) == ("pending", 1, "overloaded")
    assert turn.ready_at is not None
    assert turn.ready_at > turn.created_at

    for faults in (1, 2):
        Turn.objects.filter(pk=turn.pk).update(ready_at=turn.created_at)
        turn = hands.take(run)
        assert turn.faults == faults
        ending = turns.again(turn, Fault("overloaded"))
    assert ending == Ending("failed", "overloaded")
    assert run.state == "waiting"


def test_what_a_retry_cannot_mend_fails_at_once(house, monkeypatch):
    run, turn = prompted(house)

    def broken(turn, watch):
        raise KeyError("tool")

    monkeypatch.setattr(turns, "execute", broken)
    turns.work(turn)

    assert hands.go_on(run).failure == {"step": "look", "reason": "KeyError: 'tool'"}
