"""Cases 37, 41 and 46: slow mail, a web process and beat that are killed, two beats."""

from __future__ import annotations

import signal
from datetime import timedelta
from urllib.error import URLError
from uuid import uuid4

import pytest
from django.db.models.functions import Now
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from tests import brokers, drive, factories
from tests.acceptance.doors import Browser, answers, owner
from tests.harness import Stack
from threads import gates
from threads.models import House, Job
from workflows.models import Run, Slot, Workflow
from workflows.services import spawn_run
from workflows.setup import SWEEP, open_home


@pytest.fixture
def home(stack: Stack) -> House:
    return open_home()[0]


def state(run: Run) -> str:
    return Run.objects.values_list("state", flat=True).get(pk=run.pk)


def due_now(flow: Workflow) -> None:
    Workflow.objects.filter(pk=flow.pk).update(
        next_slot_at=Now() - timedelta(seconds=1)
    )


# Case 37: each worker that sends mail hangs in it; nothing else may wait for that.
@pytest.mark.timeout(120)
def test_mail_that_hangs_delays_no_answer_no_end_and_no_slot(stack: Stack, home: House):
    people = [factories.member(home, name) for name in ("alice", "bob", "carol")]
    stack.up("conductor", "steps", "jobs", EMAIL_BACKEND="tests.witness.HangingMail")
    names = ["alice", "bob", "carol"]
    ask = factories.gate("ask", deadline="1d")
    flow = factories.workflow(home, ask, notify=names)
    run = spawn_run(flow).run
    stack.wait(lambda: Job.objects.filter(state="running").count() == 2)
    bad = factories.call("bad", "witness", args={"wrong": 1})
    failing = factories.workflow(home, bad, notify=names, slug="bad")
    slot = factories.workflow(home, factories.sleep(), schedule="@daily", slug="slot")

    failed = spawn_run(failing).run
    due_now(slot)
    gates.decide(drive.open_gate(run).pk, person=people[0], answer="yes", door="page")

    stack.wait(lambda: state(run) == "completed", 8)
    stack.wait(lambda: state(failed) == "failed", 8)
    stack.wait(lambda: Run.objects.filter(workflow=slot, state="sleeping").exists(), 8)
    assert Job.objects.filter(state="running").count() == 2
    assert Job.objects.filter(state="pending").count() == 4


# Case 41: web, before and after the commit of a start that it was asked for.
@pytest.mark.timeout(120)
def test_a_web_process_killed_in_a_start_leaves_one_run_for_whoever_asks_again(
    stack: Stack, home: House
):
    stack.up("conductor", "steps")
    step = factories.call("x", "witness", args={"line": "x:{{run.id}}"})
    for place in ("spawn.written", "spawn.committed"):
        flow = factories.workflow(home, step, slug=place.replace(".", "-"))
        stack.start("web", THREADWORK_DIE=place)
        stack.wait(lambda: answers(stack.url("web")), 30, "web does not answer")
        browser = Browser(owner(home), stack.url("web"))
        once = str(uuid4())
        with pytest.raises((URLError, ConnectionError)):
            browser.press(flow.slug, once=once)
        assert stack.started["web"].wait(10) == -signal.SIGKILL
        committed = place == "spawn.committed"
        assert Run.objects.filter(workflow=flow).count() == int(committed)
        stack.start("web")
        stack.wait(lambda: answers(stack.url("web")), 30, "web does not answer")

        told = browser.press(flow.slug, once=once)

        run = Run.objects.get(workflow=flow)
        assert str(run.pk) in told
        stack.wait(lambda: state(run) == "completed")  # noqa: B023
        stack.kill("web")
        assert stack.marks()[f"x:{run.pk}"] == 1


def told(run: Run) -> list[str]:
    return [body.replace(str(run.pk), "RUN") for body in drive.bodies(run)]


def every_second(name: str) -> None:
    second = IntervalSchedule.objects.get_or_create(every=1, period="seconds")[0]
    PeriodicTask.objects.filter(name=name).update(
        interval=second, crontab=None, expire_seconds=None
    )


# Case 41: beat, where it alone wakes and mends.
@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_beat_that_is_ended_and_started_again_goes_on_where_it_was(
    stack: Stack, home: House, number: int
):
    every_second(SWEEP)
    stack.up("steps", "jobs")
    stack.start("beat")
    last = factories.call("x", "witness", args={"line": "x:{{run.id}}"})
    flow = factories.workflow(home, factories.sleep("nap", 1), last)
    run = spawn_run(flow).run
    stack.wait(lambda: state(run) == "completed")
    other = spawn_run(flow).run
    stack.wait(lambda: state(other) == "sleeping")

    stack.kill("beat", number=number)
    stack.started["beat"].wait(10)
    stack.start("beat")

    stack.wait(lambda: state(other) == "completed")
    assert stack.marks() == {f"x:{each.pk}": 1 for each in (run, other)}
    assert told(other) == told(run)


# Case 46: two beats and a conductor, each of which would fire the slot.
@pytest.mark.timeout(120)
def test_two_beats_and_a_conductor_fire_a_slot_once(stack: Stack, home: House):
    last = factories.call("x", "witness", args={"line": "x:{{run.id}}"})
    flow = factories.workflow(home, last, schedule="@daily", slug="slot")
    every_second(f"wf:{flow.pk}")
    stack.start("beat.a", "beat.b")
    stack.wait(lambda: brokers.messages(stack) >= 6, why="the beats are silent")

    due_now(flow)
    stack.up("conductor", "steps", "jobs.a", "jobs.b")

    stack.wait(lambda: Slot.objects.count() == 1)
    stack.wait(lambda: brokers.messages(stack) == 0)
    # The same slot once more by hand, while all of them ask for it each second.
    Workflow.objects.filter(pk=flow.pk).update(next_slot_at=Slot.objects.get().slot_at)
    ahead = Workflow.objects.filter(pk=flow.pk, next_slot_at__gt=Now())
    stack.wait(ahead.exists)
    run = Run.objects.get()
    stack.wait(lambda: brokers.settled(run))
    assert stack.marks() == {f"x:{run.pk}": 1}
    assert Slot.objects.get().run_id == run.pk
