"""The places a worker does not pass: a start, an answer, a repair, a job."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import drive, factories
from tests.harness import ROOT, Stack
from threads import tenancy
from threads.models import Gate, Job
from workflows.models import Run
from workflows.services import spawn_run
from workflows.setup import open_home


def wf(stack: Stack, *words: str, die_at: str = "") -> int:
    """Run a `wf` command in a process of its own; return its exit status."""
    orders = stack.base / "orders"
    orders.write_text(die_at)
    return subprocess.run(
        [sys.executable, "manage.py", "wf", *words],
        cwd=ROOT,
        env={**stack.env, "THREADWORK_DIE": str(orders)},
        capture_output=True,
        check=False,
        timeout=60,
    ).returncode


@pytest.mark.timeout(120)
def test_a_start_or_an_answer_cut_off_in_the_middle_never_happened(stack: Stack):
    house, _ = open_home()
    factories.workflow(house, factories.gate("ship"), slug="gated")

    assert wf(stack, "spawn", "gated", "--key", "k", die_at="spawn.written") == -9
    assert not Run.objects.exists()

    stack.up("conductor", "steps")
    assert wf(stack, "spawn", "gated", "--key", "k") == 0
    run = stack.wait(lambda: Run.objects.filter(state="waiting").first())
    before = drive.entries(run)
    answer = ("decide", str(run.pk), "approve")
    assert wf(stack, *answer, die_at="decide.written") == -9
    assert Gate.objects.get().state == "open"
    assert drive.entries(run) == before

    assert wf(stack, *answer) == 0
    stack.wait(lambda: Run.objects.get().state == "completed")
    assert drive.bodies(run)[2:] == ["approve", "Completed."]


@pytest.mark.timeout(120)
def test_a_conductor_that_dies_in_a_repair_leaves_it_to_the_next(stack: Stack):
    orders = stack.base / "orders"
    stack.env["THREADWORK_DIE"] = str(orders)
    house = tenancy.open_house("home", name="Home")
    flow = factories.workflow(
        house, factories.call("one", "witness", args={"line": "one"})
    )
    stack.up("conductor", "steps")
    orders.write_text("advance.claimed")
    run = spawn_run(flow).run
    stack.wait(orders.with_suffix(".done").exists)

    orders.write_text("reclaim.written")
    stack.wait(lambda: stack.started["conductor"].poll() is not None)
    stack.start("conductor")

    stack.wait(lambda: Run.objects.get(pk=run.pk).state == "completed")
    run.refresh_from_db()
    assert (run.attempts, run.crashes) == (2, 0)
    assert stack.marks() == {"one": 1}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("point", ["job.claimed", "job.handled"])
def test_a_job_whose_worker_dies_is_done_by_the_next(stack: Stack, point: str):
    orders = stack.base / "orders"
    stack.env["THREADWORK_DIE"] = str(orders)
    stack.env["EMAIL_BACKEND"] = "django.core.mail.backends.filebased.EmailBackend"
    house = tenancy.open_house("home", name="Home")
    factories.member(house, "alice")
    flow = factories.workflow(
        house, factories.call("one", "witness", args={"no": "such"}), notify=["alice"]
    )
    stack.up("conductor", "steps", "jobs")
    orders.write_text(point)
    run = spawn_run(flow).run
    stack.wait(orders.with_suffix(".done").exists)

    stack.start("jobs")

    stack.wait(lambda: Job.objects.filter(state="succeeded").count() == 1, 40)
    assert Run.objects.get(pk=run.pk).state == "failed"
    assert Job.objects.get().attempts == 2
    letters = list((stack.base / "mail").glob("*"))
    assert 1 <= len(letters) <= 2
