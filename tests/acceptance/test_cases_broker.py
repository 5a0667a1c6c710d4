"""Cases 24 to 29: a broker that repeats, goes away, is full or carries what nobody sent."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from django.db import transaction

from project.embedded import valkey
from tests import brokers, drive, factories
from tests.harness import ROOT, Stack
from threads import gates
from threads.models import House
from workflows.models import Run
from workflows.services import spawn_run
from workflows.setup import open_home


@pytest.fixture
def home(stack: Stack) -> House:
    return open_home()[0]


def state(run: Run) -> str:
    return Run.objects.values_list("state", flat=True).get(pk=run.pk)


# Case 24: the visibility timeout makes copies.
@pytest.mark.timeout(120)
@pytest.mark.parametrize("late", ["", "1"], ids=["acks_early", "acks_late"])
def test_a_message_handed_out_again_runs_no_command_twice(
    stack: Stack, home: House, late: str
):
    stack.env |= {"DJANGO_SETTINGS_MODULE": "tests.short", "ACKS_LATE": late}
    alice = factories.member(home, "alice")
    stack.up("conductor", "steps.a", "steps.b", "turns.a", "turns.b")
    script = f"{stack.mark('long')}; sleep 5"
    long = spawn_run(
        factories.workflow(
            home, factories.command("long", script), factories.sleep("nap", 600)
        )
    ).run
    asked = spawn_run(factories.workflow(home, factories.gate(), slug="asks")).run

    if late:
        stack.wait(lambda: brokers.unacked(stack), 10, "nothing was handed out late")
    stack.wait(lambda: state(long) == "sleeping" and state(asked) == "waiting", 40)
    stack.wait(lambda: brokers.messages(stack) == 0, 10, "messages while parked")
    assert brokers.unacked(stack) == 0

    Run.objects.filter(pk=long.pk).update(due_at=long.created_at)
    gates.decide(drive.open_gate(asked).pk, person=alice, answer="approve", door="page")
    stack.wait(lambda: brokers.settled(long, asked), 20)
    assert (state(long), state(asked)) == ("completed", "completed")
    assert list(stack.marks().values()) == [1]


# Case 25: the broker goes away and comes back.
@pytest.mark.timeout(150)
def test_a_broker_dropped_thrice_and_back_without_its_files_loses_no_run(
    stack: Stack, home: House
):
    stack.up("conductor", "steps", "turns")
    runs = brokers.flows(stack, home, 5)
    stack.wait(stack.marks)
    runs += brokers.flows(stack, home, 20)
    for _ in range(3):
        brokers.drop(stack, files=True)
        stack.pause(1)
    brokers.drop(stack, files=False)

    stack.wait(lambda: brokers.settled(*runs), 60)

    brokers.all_once(stack, runs)
    stack.wait(lambda: brokers.messages(stack) == 0, 20)
    assert all(process.poll() is None for process in stack.started.values())


# Case 25: it is there, and says nothing. Half a minute of that is in the soak.
@pytest.mark.timeout(120)
def test_a_broker_that_hangs_is_told_and_holds_up_no_start(stack: Stack, home: House):
    brokers.hang(stack, home, seconds=3)


# Case 28: the worker is faster than the commit.
@pytest.mark.timeout(120)
def test_a_start_is_no_work_before_its_caller_commits_and_none_if_that_rolls_back(
    stack: Stack, home: House
):
    stack.up("conductor", "steps", "turns")
    flow = factories.workflow(home, factories.command("one", stack.mark("one")))
    with transaction.atomic():
        slow = [spawn_run(flow).run for _ in range(10)]
        stack.pause(2)
        assert brokers.messages(stack) == 0
    with transaction.atomic():
        gone = spawn_run(flow).run
        transaction.set_rollback(True)

    stack.wait(lambda: brokers.settled(*slow), 30)
    assert not Run.objects.filter(pk=gone.pk).exists()
    assert len(stack.marks()) == 10
    assert set(stack.marks().values()) == {1}
    assert "DoesNotExist" not in stack.logs(1000)
    assert "Traceback" not in stack.logs(1000)


# Case 28: the caller dies after its commit, and before the ticket.
@pytest.mark.timeout(120)
@pytest.mark.parametrize("broker", ["there", "away"])
def test_a_start_whose_caller_died_before_the_ticket_begins_all_the_same(
    stack: Stack, home: House, broker: str
):
    flow = factories.workflow(home, factories.command("one", stack.mark("one")))
    stack.up("conductor", "steps", "turns")
    away = broker == "away"
    if away:
        valkey.stop(stack.broker)
    order = {} if away else {"THREADWORK_DIE": "spawn.committed"}
    left = subprocess.run(
        [sys.executable, "manage.py", "wf", "spawn", flow.slug],
        cwd=ROOT,
        env={**stack.env, **order},
        capture_output=True,
        check=False,
        timeout=30,
    )

    assert left.returncode == (0 if away else -signal.SIGKILL), left.stderr
    if away:
        stack.broker = valkey.start(stack.base / "broker")
    stack.wait(lambda: Run.objects.filter(state="completed").count() == 1, 20)
    assert list(stack.marks().values()) == [1]


# Case 29: the broker is full, or throws away what it likes.
@pytest.mark.timeout(150)
@pytest.mark.parametrize("policy", ["noeviction", "allkeys-lru"])
def test_a_full_broker_loses_no_run_and_gathers_no_copies(
    stack: Stack, home: House, policy: str
):
    stack.up("conductor", "steps", "turns")
    link = brokers.client(stack)
    link.config_set("maxmemory-policy", policy)
    brokers.fill(link)

    began = time.monotonic()
    runs = brokers.flows(stack, home, 20)
    assert time.monotonic() - began < 10
    stack.pause(6)
    assert brokers.messages(stack) <= 20 + 2 * 2

    link.config_set("maxmemory", "256mb")
    stack.wait(lambda: brokers.settled(*runs), 60)
    brokers.all_once(stack, runs)
    stack.wait(lambda: brokers.messages(stack) == 0, 20)
    assert all(process.poll() is None for process in stack.started.values())


RAW = [
    *(b"not json", b"{}", b"[]", b"null", b"17", b"\xff\xfe\x00", b"[" * 200_000),
    b'{"properties": 5, "headers": []}',
    # Celery itself throws away what names no task.
    b'{"body": "%%%", "properties": {"body_encoding": "base64", "delivery_tag": "t"}}',
    b'{"body": "e30=", "properties": {"delivery_tag": []}, "headers": {"task": 1}}',
]


# Case 27: messages nobody understands.
@pytest.mark.timeout(150)
def test_what_nobody_understands_is_said_once_and_thrown_away(
    stack: Stack, home: House
):
    stack.up("conductor", "steps", "turns", "jobs")
    queues = ("steps", "turns", "jobs")
    opened = stack.base / "opened"
    for queue in queues:
        for words in RAW:
            brokers.put_raw(stack, queue, words)
        brokers.put(queue, "{bad", content_type="application/json")
        brokers.put(queue, brokers.bomb(opened), content_type=brokers.PICKLE)
        brokers.put(queue, [["x" * 5_000_000], {}, {}])
        brokers.put(queue, [[], {}, {}], task="no.such.task")
        brokers.put(queue, [[1, 2, 3, 4], {}, {}])
        brokers.put(queue, [[], {"v": 2, "extra": [1]}, {}])
        brokers.put(queue, {"id": "x", "type": "mail.v9"})
        brokers.put(queue, [[], {}, {}], id=None)
        brokers.put(queue, [[], {}, {}], task=["threads.job"])
        brokers.put(queue, [[], {}, {}], eta="tomorrow", expires="never", retries="x")

    runs = brokers.flows(stack, home, 3)
    stack.wait(lambda: brokers.settled(*runs), 40, "good work is stuck behind it")
    brokers.all_once(stack, runs)
    stack.wait(lambda: brokers.messages(stack) == 0, 20, "it was not thrown away")
    assert not opened.exists()
    for name in queues:
        assert stack.started[name].poll() is None, stack.logs()
        log = (stack.base / f"{name}.log").read_text()
        assert log.count("was thrown away") == len(RAW) - 1 + 2
        assert log.count("KeyError: 'no.such.task'") == 1


# Case 29: it is full in the moment a worker takes a message.
@pytest.mark.timeout(120)
def test_a_broker_full_when_a_ticket_is_taken_ends_no_worker(stack: Stack, home: House):
    stack.up("conductor", "steps", "turns")
    link = brokers.client(stack)
    stack.kill("conductor", "steps", "turns", number=signal.SIGSTOP)
    runs = brokers.flows(stack, home, 3)
    link.config_set("maxmemory", 1)
    stack.kill("conductor", "steps", "turns", number=signal.SIGCONT)
    stack.wait(lambda: link.llen("threadwork:default:steps") < 3)
    stack.pause(2)
    link.config_set("maxmemory", "256mb")

    stack.wait(lambda: brokers.settled(*runs), 40)

    brokers.all_once(stack, runs)
    assert all(process.poll() is None for process in stack.started.values())
