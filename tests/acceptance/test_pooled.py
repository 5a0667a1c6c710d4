"""A worker behind a pooler that keeps no session (C8)."""

from __future__ import annotations

import pytest

from tests import factories
from tests.harness import Stack
from tests.pooler import Pooler
from threads import tenancy
from threads.models import Pulse, Turn
from workflows.models import Run
from workflows.services import spawn_run


@pytest.mark.timeout(150)
def test_a_worker_behind_a_pooler_keeps_its_work_by_its_lease_and_loses_it_so(
    stack: Stack,
):
    pooler = Pooler(stack.database_url, size=3)
    home = tenancy.open_house("home", name="Home")
    short = {"LEASE_SECONDS": "6", "BEAT_SECONDS": "1"}
    behind = {"DATABASE_URL": pooler.url, "DATABASE_POOLER": "1", **short}
    try:
        stack.up("conductor", "steps", **short)
        stack.up("turns.behind", **behind)
        long = factories.command("long", f"{stack.mark('long')}; sleep 9; echo done")
        run = spawn_run(factories.workflow(home, long)).run
        stack.wait(lambda: stack.marks())
        turn = Turn.objects.get()
        pulse = Pulse.objects.get(pk=turn.holder or 0)
        assert not pulse.locked
        log = (stack.base / "turns.behind.log").read_text()
        assert "Give DATABASE_DIRECT_URL an address where sessions last" in log

        # Longer than its lease, and than any number of looks for a lock.
        stack.wait(lambda: Run.objects.get(pk=run.pk).state == "completed", 40)
        assert list(stack.marks().values()) == [1]
        pulse.refresh_from_db()
        assert pulse.dead_at is None

        later = spawn_run(factories.workflow(home, long, slug="later")).run
        stack.wait(lambda: len(stack.marks()) == 2)
        stack.kill("turns.behind")
        stack.up("turns", **short)
        stack.wait(lambda: Run.objects.get(pk=later.pk).state == "completed", 60)
        assert sorted(stack.marks().values()) == [1, 2]
        stack.wait(lambda: Pulse.objects.get(pk=pulse.pk).dead_at, 20)
    finally:
        stack.down_roles()
        pooler.close()
