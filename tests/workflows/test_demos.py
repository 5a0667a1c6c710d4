"""The demo workflows, each played to its end without a key."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests import drive
from threads import gates
from threads.models import Entry, Thread
from workflows import demo
from workflows.demo import cases
from workflows.models import Checkpoint, Run, Workflow
from workflows.services import spawn_run


@pytest.fixture
def demos(house, alice):
    demo.install(house)
    cases.install(house)
    return {flow.slug: flow for flow in Workflow.objects.filter(house=house)}


def states(run):
    return dict(drive.steps(run))


def result(run, name):
    last = Checkpoint.objects.filter(run=run, name=name).order_by("-iteration").first()
    return (last.result if last else None) or {}


def said(run):
    thread = drive.thread_of(run)
    return "\n".join(Entry.objects.filter(thread=thread).values_list("body", flat=True))


def test_the_gated_job_acts_only_after_a_yes(demos, alice):
    run = drive.carry(spawn_run(demos["gated-job"]).run)
    assert run.state == "waiting"
    assert "passed" in result(run, "check")["output"]

    gates.speak(drive.thread_of(run), person=alice, text="👍")
    run = drive.carry(run)

    assert run.state == "completed"
    assert "Approved by alice" in result(run, "publish")["output"]


def test_the_gated_job_does_nothing_after_a_no(demos, alice):
    run = drive.carry(spawn_run(demos["gated-job"]).run)

    gates.speak(drive.thread_of(run), person=alice, text="no")

    run = drive.carry(run)
    assert run.state == "failed"
    assert states(run)["publish"] == "skipped"


def test_the_hunt_runs_ten_times_and_names_the_offender(demos):
    run = drive.carry(spawn_run(demos["flakiness-hunter"]).run)

    hunts = Checkpoint.objects.filter(run=run, name="hunt")
    assert run.state == "completed"
    assert hunts.count() == 10
    failed = hunts.filter(state="failed").count()
    report = result(run, "offenders")["output"]
    assert (f"{failed} test_sometimes.py::test_the_clock of 10 runs" in report) == bool(
        failed
    )
    assert "test_what_always_holds" not in report
    assert (states(run)["report"] == "completed") == bool(failed)


@contextmanager
def answering() -> Iterator[str]:
    class Fine(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Fine)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_probe_of_what_is_well_ends_quietly(demos):
    with answering() as url:
        run = drive.carry(spawn_run(demos["health-probe"], payload={"url": url}).run)

    assert run.state == "completed"
    assert result(run, "probe")["output"].startswith("200 after")
    assert states(run)["escalate"] == "skipped"


def test_the_probe_of_what_is_not_looks_why_and_calls_a_person(demos, alice):
    with answering() as url:
        pass  # nobody answers there any more
    run = drive.carry(spawn_run(demos["health-probe"], payload={"url": url}).run)
    for _ in range(2):
        run = drive.wake(run)

    assert run.state == "waiting"
    assert "Connection refused" in result(run, "diagnose")["output"]
    assert "is not well" in said(run)
    gates.speak(drive.thread_of(run), person=alice, text="on it")
    run = drive.carry(run)
    assert run.failure is not None
    assert run.failure["step"] == "probe"


def test_the_weekly_summary_cites_the_rows(demos):
    run = drive.carry(spawn_run(demos["weekly-summary"]).run)

    rows = result(run, "pull")["rows"]
    most = max(rows, key=lambda row: row["amount"])
    text = result(run, "summary")["output"]
    assert run.state == "completed"
    assert sum(row["orders"] for row in rows) == 200
    assert "orders: 200 in all" in text
    assert f"[row {rows.index(most) + 1}]" in text
    assert "scripted stand-in" in text


def test_the_watcher_looks_again_and_opens_one_room_when_it_trips(demos):
    flow = demos["condition-watcher"]
    run = drive.carry(spawn_run(flow, payload={"percent": 101}).run)
    assert run.state == "sleeping"
    assert not Thread.objects.filter(kind="room").exists()
    Run.objects.filter(pk=run.pk).update(payload={"percent": 0})

    run = drive.wake(run)

    assert run.state == "completed"
    assert Checkpoint.objects.filter(run=run, name="watch").count() == 2
    assert Thread.objects.get(kind="room").title == "The disk is filling up"
