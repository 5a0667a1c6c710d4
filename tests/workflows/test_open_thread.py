"""`open_thread` steps: a room that people join and that outlives the run (A52)."""

from __future__ import annotations

import pytest

from tests import drive, factories
from threads.models import Entry, Job, Thread
from workflows import authoring, journal
from workflows.engine import advance
from workflows.exceptions import BadWorkflow
from workflows.models import Checkpoint, Run
from workflows.services import spawn_run

WATCH = {
    "name": "call",
    "kind": "open_thread",
    "title": "{{payload.host}} is down",
    "prompt": "Free space on **{{payload.host}}**: {{payload.free}} MB.",
    "who": ["alice", "member"],
}
PAYLOAD = {"host": "db1", "free": 12}


def opened(house, **more):
    flow = factories.workflow(house, {**WATCH, **more})
    return drive.carry(spawn_run(flow, payload=PAYLOAD).run)


def rooms():
    return Thread.objects.filter(kind="room")


def test_a_room_is_opened_with_its_first_words_and_the_way_back(house, alice):
    run = opened(house)

    room = rooms().get()
    (first,) = Entry.objects.filter(thread=room)
    assert run.state == "completed"
    assert room.title == "db1 is down"
    assert first.body.startswith("Free space on **db1**: 12 MB.")
    assert f"/runs/{run.pk}/" in first.body


def test_the_run_says_where_it_is_and_later_steps_read_it(house, alice):
    run = opened(house)

    room = rooms().get()
    result = Checkpoint.objects.get(run=run).result or {}
    assert result["thread"] == str(room.pk)
    assert result["title"] == "db1 is down"
    assert result["url"].endswith(f"/threads/{room.pk}/")
    assert any(result["url"] in body for body in bodies(run))


def bodies(run):
    thread = drive.thread_of(run)
    return Entry.objects.filter(thread=thread).values_list("body", flat=True)


def test_those_it_is_for_get_mail_once(house, alice, bob, carol):
    opened(house)

    mails = Job.objects.filter(type="mail.v1")
    assert {job.payload["to"] for job in mails} == {
        "alice@example.com",
        "bob@example.com",
    }
    assert {job.payload["subject"] for job in mails} == {"db1 is down"}


def test_a_step_that_begins_again_finds_its_room(house, alice, monkeypatch):
    flow = factories.workflow(house, WATCH)
    run = spawn_run(flow, payload=PAYLOAD).run
    monkeypatch.setattr(journal, "record", lambda *args: 1 / 0)
    advance.advance(pool="steps", holder=drive.holder(), hint=run.pk)
    assert rooms().count() == 1
    monkeypatch.undo()
    Run.objects.filter(pk=run.pk).update(state="pending", holder=None, held_until=None)

    run = drive.carry(run)

    assert run.state == "completed"
    assert rooms().count() == 1
    assert Entry.objects.filter(thread=rooms().get()).count() == 1
    assert Job.objects.filter(type="mail.v1").count() == 1


def test_each_iteration_of_a_workflow_has_a_room_of_its_own(house, alice):
    opened(house)
    opened(house)

    assert rooms().count() == 2


def test_a_title_of_many_lines_becomes_one_and_is_cut(house, alice):
    opened(house, title="{{payload.host}}\n\x1b[31m" + "x" * 190)
    title = rooms().get().title

    assert title.startswith("db1 xxx")
    assert "\n" not in title


def test_a_path_with_no_value_opens_nothing(house, alice):
    run = opened(house, title="{{payload.nothing}}")

    assert run.failure is not None
    assert "payload.nothing" in run.failure["reason"]
    assert not rooms().exists()


def test_strangers_are_refused_when_it_is_written(house, alice):
    with pytest.raises(BadWorkflow, match="nobody in this house is called “erin”"):
        authoring.save_workflow(
            house, {"slug": "watch", "steps": [{**WATCH, "who": ["erin"]}]}
        )
