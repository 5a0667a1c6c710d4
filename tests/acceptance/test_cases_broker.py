"""Cases 24 to 29: a broker that repeats, goes away, is full or carries what nobody sent."""

from __future__ import annotations

import pytest

from tests import brokers, drive, factories
from tests.harness import Stack
from threads import gates, tenancy
from threads.models import House
from workflows.models import Run
from workflows.services import spawn_run


@pytest.fixture
def home(stack: Stack) -> House:
    return tenancy.open_house("home", name="Home")


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
    script = f"{stack.mark('long')}; sleep 7"
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


RAW = [
    *(b"not json", b"{}", b"[]", b"null", b"17", b"\xff\xfe\x00", b"[" * 200_000),
    b'{"properties": 5, "headers": []}',
    b'{"body": "%%%", "properties": {"body_encoding": "base64", "delivery_tag": "t"}}',
    b'{"body": "e30=", "properties": {"delivery_tag": []}, "headers": {"task": 1}}',
]


# Case 27: messages nobody understands.
@pytest.mark.timeout(150)
def test_what_nobody_understands_is_said_once_and_thrown_away(stack: Stack, home: House):
    stack.up("conductor", "steps", "turns", "jobs")
    mains = {name: stack.started[name].pid for name in ("steps", "turns", "jobs")}
    opened = stack.base / "opened"
    opened.parent.chmod(0o777)
    for queue in mains:
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
    for name, pid in mains.items():
        assert stack.started[name].poll() is None, stack.logs()
        log = (stack.base / f"{name}.log").read_text()
        assert log.count("no.such.task") >= 1
