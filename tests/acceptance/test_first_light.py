from __future__ import annotations

import pytest

from tests import drive, factories
from tests.harness import Stack
from threads import gates, tenancy
from workflows.models import Run
from workflows.services import Start, spawn_run


@pytest.mark.timeout(120)
def test_a_run_goes_through_real_workers_from_start_to_completed(stack: Stack):
    stack.up("conductor", "steps")
    house = tenancy.open_house("home", name="Home")
    alice = factories.member(house, "alice")
    flow = factories.workflow(
        house,
        factories.call("first", "witness", args={"line": "first"}),
        factories.sleep("rest", 0.5),
        factories.gate("ship"),
        factories.call("last", "witness", args={"line": "last"}),
    )

    run = spawn_run(flow, start=Start(by=alice)).run
    stack.wait(lambda: Run.objects.get(pk=run.pk).state == "waiting")
    gates.speak(drive.thread_of(run), person=alice, text="yes")
    stack.wait(lambda: Run.objects.get(pk=run.pk).state == "completed")

    assert stack.marks() == {"first": 1, "last": 1}
