"""A step that takes its worker's memory, and its worker: bounded, and alone in it."""

from __future__ import annotations

import pytest

from tests import drive, factories
from tests.harness import Stack
from threads import services, tenancy
from threads.envelopes import registry
from threads.models import House, Job
from workflows.models import Checkpoint, Run
from workflows.services import retry_run, spawn_run


@pytest.fixture
def home(stack: Stack) -> House:
    return tenancy.open_house("home", name="Home")


def settled(run: Run) -> bool:
    run.refresh_from_db()
    return run.state in Run.SETTLED


@pytest.mark.timeout(150)
def test_a_step_that_kills_its_worker_each_time_fails_alone(stack: Stack, home: House):
    """Case 26: the kernel kills the child; the reclaim counts; others go on meanwhile."""
    deadly = factories.workflow(
        home,
        factories.call("first", "witness", args={"line": "{{run.id}}:first"}),
        factories.call("eat", "die"),
        slug="deadly",
        max_attempts=6,
    )
    calm = factories.workflow(
        home,
        factories.call("note", "witness", args={"line": "{{run.id}}:calm"}),
        factories.sleep("nap", 0.2),
        factories.call("again", "witness", args={"line": "{{run.id}}:again"}),
        slug="calm",
    )
    stack.up("conductor", "steps")
    run = spawn_run(deadly).run
    stack.wait(lambda: crashes(run) >= 1)

    other = spawn_run(calm).run
    stack.wait(lambda: settled(other), 40)

    assert (other.state, other.attempts) == ("completed", 1)
    stack.wait(lambda: settled(run), 60)
    assert other.finished_at
    assert run.finished_at
    assert other.finished_at < run.finished_at
    assert run.failure == {
        "step": "eat",
        "reason": "the worker died 6 times at this step",
    }
    assert drive.bodies(run)[-1].startswith("Failed at eat: the worker died 6 times")
    assert stack.marks()[f"{run.pk}:first"] == 1

    again = retry_run(run).run
    stack.wait(lambda: settled(again), 60)
    assert again.failure == run.failure
    assert Checkpoint.objects.get(run=again, position=0).state == "completed"
    assert stack.marks().get(f"{again.pk}:first") is None


def crashes(run: Run) -> int:
    return Run.objects.get(pk=run.pk).crashes


@pytest.mark.timeout(90)
def test_a_step_that_meets_its_limit_of_memory_fails_and_its_worker_goes_on(
    stack: Stack, home: House
):
    stack.up("conductor", "steps")
    flow = factories.workflow(
        home,
        factories.call("eat", "devour", on_error="continue"),
        factories.call("note", "witness", args={"line": "{{run.id}}"}),
    )
    run = spawn_run(flow).run

    stack.wait(lambda: settled(run), 40)

    eat = Checkpoint.objects.get(run=run, position=0)
    assert (eat.state, eat.error) == (
        "failed",
        "it needed more memory than there is for it",
    )
    assert (run.state, run.attempts, run.crashes) == ("completed", 1, 0)


@pytest.mark.timeout(120)
def test_a_job_that_kills_its_worker_each_time_ends_dead_and_in_sight(
    stack: Stack, home: House
):
    mail = registry["mail.v1"].model_validate(
        {"to": "alice@example.com", "subject": "deadly", "text": "."}
    )
    deadly = services.post_job(mail, house=home)
    assert deadly is not None
    # Eight deaths it has behind it, two more are the most.
    Job.objects.filter(pk=deadly).update(attempts=8)
    env = {"EMAIL_BACKEND": "tests.witness.DeadlyMail"}
    stack.up("conductor", "jobs", **env)

    def buried() -> bool:
        if stack.started["jobs"].poll() is not None:
            stack.start("jobs", **env)
        return Job.objects.get(pk=deadly).state == "dead"

    stack.wait(buried, 80)

    job = Job.objects.get(pk=deadly)
    assert (job.attempts, job.last_error) == (10, "the worker died")
    assert job.holder is None
