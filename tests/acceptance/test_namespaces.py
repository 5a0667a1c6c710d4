"""Two stacks on one database and one broker (A43)."""

from __future__ import annotations

import pytest
from django.conf import settings

from tests import factories
from tests.harness import Stack
from threads import tenancy
from threads.models import House, Turn
from workflows.models import Run
from workflows.services import spawn_run

ALL = ("conductor", "steps", "turns", "jobs")


def begin(stack: Stack, slug: str, namespace: str) -> list[Run]:
    house = tenancy.open_house(slug, name=slug)
    House.objects.filter(pk=house.pk).update(namespace=namespace)
    house.refresh_from_db()
    flow = factories.workflow(
        house,
        factories.command("one", stack.mark(slug)),
        factories.sleep("nap", 1),
        factories.call("two", "witness", args={"line": f"{slug}:{{{{run.id}}}}"}),
        slug=slug,
    )
    return [spawn_run(flow).run for _ in range(3)]


def state(runs: list[Run]) -> list[str]:
    ids = [run.pk for run in runs]
    return list(Run.objects.filter(pk__in=ids).values_list("state", flat=True))


@pytest.mark.timeout(180)
def test_two_stacks_on_one_database_and_broker_never_touch_each_others_work(
    stack: Stack,
):
    assert settings.NAMESPACE == "default"
    other = Stack(stack.base / "other", broker=stack.broker, NAMESPACE="staging")
    other.witness.unlink()
    other.witness.symlink_to(stack.witness)
    try:
        ours = begin(stack, "ours", "default")
        theirs = begin(stack, "theirs", "staging")
        stack.up(*ALL)

        stack.wait(lambda: state(ours) == ["completed"] * 3, 60)
        # A few rounds of the conductor's: what is ready for two seconds gets tickets.
        stack.pause(5)
        assert state(theirs) == ["pending"] * 3
        rows = Run.objects.filter(pk__in=[run.pk for run in theirs])
        assert set(rows.values_list("attempts", "holder", "needs")) == {(0, None, "")}
        assert not Turn.objects.filter(namespace="staging").exists()

        other.up(*ALL)
        other.wait(lambda: state(theirs) == ["completed"] * 3, 60)
    finally:
        other.down()

    marks = stack.marks()
    assert set(marks.values()) == {1}
    assert sorted(line.split(":")[0] for line in marks) == ["ours"] * 6 + ["theirs"] * 6
