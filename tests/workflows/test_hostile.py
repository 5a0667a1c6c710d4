"""What people found by attack, each refused or shown as it is, nothing half done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import drive, factories, harness
from threads import gates
from workflows import authoring, sweep
from workflows.exceptions import BadWorkflow
from workflows.models import Run
from workflows.services import cancel_run, retry_run, spawn_run


def test_a_text_that_only_looks_like_a_time_takes_no_page_down(house, alice, client):
    run = spawn_run(factories.workflow(house, factories.gate("ask"))).run
    drive.carry(run)
    cancel_run(run.pk, who="alice", reason="because 2026-99-99 99:99:99 UTC")
    client.force_login(alice)

    for page in ("/", "/runs/", f"/runs/{run.pk}/"):
        answer = client.get(page)
        assert answer.status_code == 200
        assert "2026-99-99 99:99:99 UTC" in answer.text


@pytest.mark.parametrize(
    "address", ["/workflows/%00/start/", "/runs/?workflow=%00", "/admin/?x=%00"]
)
def test_a_nul_in_an_address_is_not_found(house, alice, client, address):
    client.force_login(alice)

    assert client.get(address).status_code == 404


def test_a_payload_that_was_taken_once_is_taken_again(house):
    flow = factories.workflow(house, factories.sleep(seconds=0))

    kept = drive.carry(spawn_run(flow, payload={"n": 1e200}).run)

    assert retry_run(Run.objects.get(pk=kept.pk), from_step="rest").new


def test_a_name_is_one_line(house):
    with pytest.raises(BadWorkflow, match="name: must be one line"):
        factories.workflow(house, factories.sleep(), name="one\ntwo")


def test_a_question_back_does_not_acknowledge(house, alice):
    flow = factories.workflow(house, factories.gate("note", answer="acknowledge"))
    run = drive.carry(spawn_run(flow).run)

    gates.speak(drive.thread_of(run), person=alice, text="what does this do?")
    assert drive.open_gate(run).state == "open"

    gates.speak(drive.thread_of(run), person=alice, text="seen")
    assert drive.carry(run).state == "completed"


def test_a_run_held_back_while_its_workflow_was_resumed_begins_by_the_sweep(house):
    flow = factories.workflow(house, factories.sleep(seconds=0))
    authoring.pause_workflow(flow)
    run = spawn_run(flow).run
    type(flow).objects.filter(pk=flow.pk).update(paused=False)  # it read the pause

    sweep.sweep()

    assert drive.carry(run).state == "completed"


def test_a_data_folder_that_cannot_be_one_is_refused_in_words(tmp_path: Path):
    (tmp_path / "file").touch()

    ended = subprocess.run(
        [sys.executable, "manage.py", "up", "--data", str(tmp_path / "file" / "x")],
        cwd=harness.ROOT,
        env={**os.environ, "DATABASE_URL": "", "BROKER_URL": "", "SECRET_KEY": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "cannot be" in ended.stderr
