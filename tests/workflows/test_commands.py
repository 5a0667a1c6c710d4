"""What keeps a command from beginning, and what of it is never written down."""

from __future__ import annotations

import json

import pytest

from tests import drive, factories, hands
from threads import tenancy
from threads.models import Entry, Turn, TurnMessage
from workflows.exceptions import BadWorkflow
from workflows.models import Checkpoint, Event, Run
from workflows.services import spawn_run


def start(house, script, **more) -> Run:
    step = factories.command("deploy", script, **more)
    return drive.carry(spawn_run(factories.workflow(house, step)).run)


def test_a_missing_secret_fails_the_step_by_name_before_anything_runs(house):
    run = start(house, "echo begun", secrets=["TOKEN"])

    assert hands.failure(run) == (
        "deploy",
        "there is no secret called “TOKEN” in this house",
    )
    assert "begun" not in drive.bodies(run)


def test_a_secret_kept_under_another_key_is_asked_for_anew(house, settings):
    tenancy.set_secret(house, "TOKEN", "s3cret-value")
    settings.SECRETS_KEY = "another key"

    run = start(house, "echo begun", secrets=["TOKEN"])

    step, reason = hands.failure(run)
    assert (step, "set it again" in reason) == ("deploy", True)
    assert "begun" not in drive.bodies(run)


def test_a_secret_reaches_the_command_and_no_row(house):
    tenancy.set_secret(house, "TOKEN", "s3cret-value")

    run = start(house, "echo it is $TOKEN; test ${#TOKEN} = 12", secrets=["TOKEN"])

    assert run.state == "completed"
    assert "it is •••" in drive.bodies(run)
    rows = [
        list(model.objects.values())
        for model in (Run, Checkpoint, Event, Turn, TurnMessage, Entry)
    ]
    assert "s3cret-value" not in json.dumps(rows, default=str)


@pytest.fixture
def sources(settings):
    """A folder of sources in which `checkout` is allowed and `private` is not."""
    for name in ("checkout", "private"):
        (settings.SOURCES_DIR / name).mkdir(parents=True)
    (settings.SOURCES_DIR / "private" / "key").write_text("mine")
    settings.SOURCES = ["checkout"]
    return settings.SOURCES_DIR


@pytest.mark.parametrize("source", ["gone", "private", "checkout/../private"])
def test_a_source_that_is_not_allowed_is_refused_when_written(house, sources, source):
    with pytest.raises(BadWorkflow, match="is not among the allowed ones"):
        start(house, "cat key", source=source)

    assert not Run.objects.exists()


def test_a_source_that_is_gone_or_leads_elsewhere_fails_the_step(house, sources):
    (sources / "checkout" / "link").symlink_to(sources / "private")
    gone = start(house, "echo begun", source="checkout/gone")
    elsewhere = start(house, "echo begun; cat key", source="checkout/link")

    for run, source in ((gone, "checkout/gone"), (elsewhere, "checkout/link")):
        assert hands.failure(run)[1] == f"there is no source “{source}” on this worker"
        assert "begun" not in drive.bodies(run)


def test_a_source_that_cannot_be_unpacked_fails_the_step_in_words(house, sources):
    (sources / "checkout" / "broken.tar").write_text("no archive")

    run = start(house, "echo begun", source="checkout/broken.tar")

    assert hands.failure(run) == (
        "deploy",
        "“broken.tar” is neither a folder nor an archive",
    )


def test_a_command_past_its_limit_fails_its_step_and_keeps_its_output(house):
    run = start(house, "echo before; sleep 60", timeout=1)

    assert hands.failure(run) == ("deploy", "it took longer than 1 s")
    assert "before" in drive.bodies(run)


def test_a_command_reads_which_attempt_of_its_step_it_is(house):
    step = factories.command(
        "flaky",
        'echo "attempt $THREADWORK_ATTEMPT"; test "$THREADWORK_ATTEMPT" = 2',
        retries={"limit": 1, "delay": 0},
    )
    run = drive.carry(spawn_run(factories.workflow(house, step)).run)

    drive.wake(run)

    assert run.state == "completed"
    assert [body for body in drive.bodies(run) if body.startswith("attempt")] == [
        "attempt 1",
        "attempt 2",
    ]
