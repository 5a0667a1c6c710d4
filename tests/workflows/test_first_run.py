from __future__ import annotations

from tests import drive, factories
from threads import gates
from workflows.services import Start, spawn_run


def test_a_run_of_sleep_gate_and_sleep_reads_as_a_thread(house, alice):
    flow = factories.workflow(
        house, factories.sleep("rest"), factories.gate("ship", "Ship it?")
    )
    run = spawn_run(flow, start=Start(by=alice)).run

    assert drive.carry(run).state == "sleeping"
    assert drive.wake(run).state == "waiting"
    gates.speak(drive.thread_of(run), person=alice, text="👍")
    drive.carry(run)

    assert run.state == "completed"
    assert drive.bodies(run)[0] == "Started by alice."
    assert drive.bodies(run)[2:] == [
        "Ship it?",
        "👍",
        "Understood as approved by alice.",
        "Completed.",
    ]
