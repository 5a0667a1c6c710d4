"""`wf impact`: what is in flight that this code could not finish (C16)."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests import factories, hands
from threads import runtimes, tenancy
from threads.liveness import known_runtimes
from threads.models import Bot, House, Job
from threads.runtime.bots import RUNTIMES
from workflows.models import Plan, Run
from workflows.services import cancel_run, spawn_run

NEWER = [
    {"name": "ask", "kind": "human_gate", "prompt": "Go?"},
    {"name": "paint", "kind": "paint_fence", "colour": "white"},
]


@pytest.fixture
def fence(house, alice):
    """A workflow of a newer release, whose second step this code does not know."""
    flow = factories.workflow(house, factories.gate("ask"), slug="fence")
    stored = Plan.objects.create(hash="newer", steps=NEWER)
    hands.sql("UPDATE workflows_workflow SET plan_id = %s", stored.pk)
    flow.refresh_from_db()
    return flow


def test_nothing_missing_is_exit_status_0(wf, house, alice):
    spawn_run(factories.workflow(house, factories.gate(), factories.prompt("look")))

    ended = wf("impact")

    assert (ended.status, ended.stderr) == (0, "")
    assert ended.stdout == "Nothing in flight needs what this code lacks.\n"
    found = wf("impact", "--json").document
    assert found == {"runs": [], "workflows": [], "jobs": []}


def test_runs_and_recipes_that_need_an_unknown_kind_are_named(wf, fence):
    asking = hands.go_on(spawn_run(fence).run)
    ready = spawn_run(fence).run
    cancel_run(spawn_run(fence).run.pk)

    ended = wf("impact", "--json")

    assert ended.status == 1
    (line,) = ended.document["runs"]
    assert (line["workflow"], line["house"]) == ("fence", "home")
    assert (line["what"], line["name"], line["count"]) == ("kind", "paint_fence", 2)
    assert line["states"] == {"pending": 1, "waiting": 1}
    assert {(run["id"], run["state"], run["step"]) for run in line["runs"]} == {
        (str(asking.pk), "waiting", "ask"),
        (str(ready.pk), "pending", "ask"),
    }
    (flow,) = ended.document["workflows"]
    assert (flow["name"], flow["steps"]) == ("paint_fence", ["paint"])
    shown = wf("impact").stdout
    assert "home/fence needs the step kind “paint_fence”: 1 pending, 1 waiting" in shown
    assert f"  {str(asking.pk)[-8:]}  waiting  at ask\n" in shown
    assert "its steps as they read now, paint" in shown


def test_a_step_that_is_behind_a_run_is_not_needed_any_more(wf, house, alice):
    steps = [{"name": "paint", "kind": "paint_fence"}, *NEWER[:1]]
    flow = factories.workflow(house, factories.gate("ask"), slug="past")
    stored = Plan.objects.create(hash="past", steps=steps)
    run = spawn_run(flow).run
    hands.sql("UPDATE workflows_run SET plan_id = %s, position = 1", stored.pk)

    assert wf("impact").status == 0

    hands.sql("UPDATE workflows_run SET position = 0 WHERE id = %s", run.pk)
    assert wf("impact").status == 1


def test_a_function_that_is_no_longer_listed_is_named(wf, house, alice, settings):
    settings.CALLS = {"work": "tests.hands.called"}
    spawn_run(factories.workflow(house, factories.gate(), factories.call("c", "work")))
    assert wf("impact").status == 0

    settings.CALLS = {}
    found = wf("impact", "--json").document

    assert [(n["what"], n["name"]) for n in found["runs"]] == [("function", "work")]
    assert found["workflows"][0]["steps"] == ["c"]


def test_a_runtime_nobody_has_is_named_for_what_is_still_to_be_asked(wf, house, alice):
    flow = factories.workflow(house, factories.gate("ask"), factories.prompt("look"))
    hands.go_on(spawn_run(flow).run)
    Bot.objects.update(runtime="telepathy")

    found = wf("impact", "--json").document

    assert [(n["what"], n["name"]) for n in found["runs"]] == [("runtime", "telepathy")]


def test_an_open_turn_needs_what_it_was_asked_of(wf, house, alice):
    Bot.objects.update(runtime="telepathy")
    hands.go_on(spawn_run(factories.workflow(house, factories.prompt("look"))).run)
    Bot.objects.update(runtime="scripted")

    (line,) = wf("impact", "--json").document["runs"]

    assert (line["name"], line["states"]) == ("telepathy", {"waiting": 1})
    assert wf("impact", "--json").document["workflows"] == []


def test_jobs_of_an_unknown_type_are_counted(wf, house, alice):
    for _ in range(3):
        Job.objects.create(
            house=house, namespace="default", type="party.v9", payload={}
        )

    ended = wf("impact")

    assert ended.status == 1
    assert ended.stdout == "3 jobs of the unknown type “party.v9”\n"


def test_another_house_is_left_out_where_one_is_named_and_another_stack_always(
    wf, fence
):
    spawn_run(fence)
    tenancy.open_house("away", name="Away")
    assert wf("impact", "--house", "away").status == 0

    House.objects.filter(slug="home").update(namespace="staging")
    assert wf("impact").status == 0


def test_many_runs_are_told_in_a_few_statements(wf, fence):
    first = spawn_run(fence).run
    many_runs(first, 20_000)
    hands.sql("ANALYZE")  # as autovacuum does of itself, a minute later

    with CaptureQueriesContext(connection) as asked:
        found = wf("impact", "--json").document

    (line,) = found["runs"]
    assert line["count"] == 20_001
    assert len(line["runs"]) == 20
    assert len(asked) < 15


def many_runs(first: Run, count: int) -> None:
    """Write runs like this one straight into the tables."""
    hands.sql(
        "INSERT INTO threads_thread (id, house_id, title, kind, bot_id, trigger_mode,"
        " last_number) SELECT gen_random_uuid(), t.house_id, 'copy', t.kind, t.bot_id,"
        " t.trigger_mode, 0 FROM threads_thread t JOIN workflows_runthread w"
        " ON w.thread_id = t.id, generate_series(1, %s) WHERE w.run_id = %s",
        count, first.pk,
    )  # fmt: skip
    hands.sql(
        "WITH copies AS (SELECT id, row_number() OVER () AS n FROM threads_thread"
        "  WHERE title = 'copy'),"
        " made AS (INSERT INTO workflows_run SELECT (jsonb_populate_record(r,"
        "  jsonb_build_object('id', c.id))).* FROM workflows_run r, copies c"
        "  WHERE r.id = %s RETURNING id)"
        " INSERT INTO workflows_runthread SELECT (jsonb_populate_record(w,"
        "  jsonb_build_object('run_id', m.id, 'thread_id', m.id))).*"
        "  FROM workflows_runthread w, made m WHERE w.run_id = %s",
        first.pk, first.pk,
    )  # fmt: skip


def test_the_names_that_surfaces_read_are_those_the_workers_announce():
    assert {*RUNTIMES, "command"} == runtimes.NAMES
    assert known_runtimes >= runtimes.NAMES
