from __future__ import annotations

import pytest

from tests import drive, factories
from workflows.exceptions import NotReached
from workflows.services import retry_run, spawn_run


def test_a_retry_goes_on_with_the_files_of_the_steps_it_keeps(house):
    flow = factories.workflow(
        house,
        factories.command("build", "echo built > artefact"),
        factories.command("ship", "cat artefact && test -e fixed"),
    )
    run = drive.carry(spawn_run(flow).run)
    assert (run.failure or {})["step"] == "ship"

    again = drive.carry(retry_run(run).run)

    assert drive.steps(again)[0] == ("build", "completed")
    assert "built" in drive.bodies(again)


def test_a_retry_past_a_failure_that_stops_the_run_is_refused(house):
    flow = factories.workflow(
        house,
        factories.command("checks", "exit 1"),
        factories.command("rescue", "true", when="on_failure"),
        factories.command("ship"),
    )
    run = drive.carry(spawn_run(flow).run)

    with pytest.raises(NotReached, match="begin at “checks” or earlier"):
        retry_run(run, from_step="ship")

    rescued = drive.carry(retry_run(run, from_step="rescue").run)
    assert drive.steps(rescued)[1] == ("rescue", "completed")
    assert rescued.state == "failed"
