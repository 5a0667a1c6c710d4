"""Why is it stuck? In words, from the rows of the real situation (C6)."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from tests import drive, factories, hands
from threads.models import Pulse
from workflows import authoring, documents, why
from workflows.models import Run
from workflows.plan import KINDS
from workflows.services import spawn_run

AT = r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)? UTC"


def says(run: Run, pattern: str) -> None:
    """Check the whole sentence; AT stands for a moment."""
    run = Run.objects.select_related("workflow").get(pk=run.pk)
    words = why.in_words(run)
    assert re.fullmatch(pattern.replace("AT", AT), words), words
    waits = documents.run(run)["waiting_for"]
    assert waits is None or waits["words"] == words


@pytest.fixture
def conductor(db):
    """A conductor that works, as the rows show it."""
    return pulse("conductor")


def pulse(role: str, **more) -> Pulse:
    facts = {"namespace": "default", "name": f"{role}@h1", "host": "h1", "process": 7}
    known = {"kinds": sorted(KINDS), "runtimes": ["command", "scripted"]}
    return Pulse.objects.create(
        **{"role": role, **facts, **known, "version": "", **more}
    )


def ready(house, *steps) -> Run:
    """Return a run that has stood ready for a minute."""
    run = spawn_run(factories.workflow(house, *steps or [factories.gate()])).run
    hands.sql("UPDATE workflows_run SET ready_at = now() - interval '1 minute'")
    return run


def asked(house, **turn) -> Run:
    """Return a run whose turn has stood ready for a minute."""
    flow = factories.workflow(house, factories.command("build"))
    run = hands.go_on(spawn_run(flow).run)
    hands.sql("UPDATE threads_turn SET ready_at = now() - interval '1 minute'")
    return run


def test_just_ready(house, conductor):
    run = spawn_run(factories.workflow(house, factories.gate())).run

    says(run, "Ready to go on since AT; no worker has taken it yet.")


def test_no_worker_for_its_pool_is_up(house, conductor):
    run = ready(house)
    pulse("worker-turns")

    says(
        run,
        "Ready to go on since AT, but no worker has taken it: "
        "no worker for “steps” is up.",
    )


def test_the_only_worker_has_not_been_heard_of(house, conductor):
    run = ready(house)
    pulse("worker-steps", seen_at=Now() - timedelta(minutes=10))

    says(run, ".*: no worker for “steps” is up.")


def test_the_messenger_is_down(house):
    pulse("conductor", unheard_since=Now() - timedelta(minutes=3))
    pulse("worker-steps")

    says(
        ready(house),
        "Ready to go on since AT, but no worker has taken it: "
        "the messenger has not answered since AT.",
    )


def test_the_workers_are_busy(house, conductor):
    pulse("worker-steps")

    says(ready(house), ".*: up, and busy with others, are worker-steps on h1.")


def test_nobody_posts_another_ticket_where_the_conductor_is_silent(house):
    pulse("conductor", seen_at=Now() - timedelta(minutes=10))
    pulse("worker-steps")

    says(
        ready(house),
        ".*are worker-steps on h1; no conductor has been seen since AT.",
    )


def test_no_conductor_has_ever_run(house):
    pulse("worker-steps")

    says(ready(house), ".*are worker-steps on h1; no conductor has run here yet.")


def test_no_worker_knows_its_next_step(house, conductor):
    pulse("worker-steps", kinds=["sleep"])
    run = ready(house)
    hands.sql("UPDATE workflows_run SET needs = 'paint_fence'")

    says(run, ".*: no worker here knows the step kind “paint_fence” yet.")


def test_at_work_and_by_whom(house, conductor):
    run = spawn_run(factories.workflow(house, factories.gate("ask"))).run
    hands.hold(run)

    says(
        run,
        r"At work on “ask” since AT \(worker-steps on test, seen \d+ s ago\).",
    )


def test_its_worker_has_stopped(house, conductor):
    run = spawn_run(factories.workflow(house, factories.gate("ask"))).run
    hands.hold(run)
    hands.sql("UPDATE threads_pulse SET seen_at = now() - interval '40 s'")

    says(
        run,
        r"At work on “ask” since AT \(worker-steps on test, silent since AT; "
        r"its work is taken over at AT at the latest\).",
    )


def test_its_worker_has_died_and_no_conductor_hands_it_on(house):
    run = spawn_run(factories.workflow(house, factories.gate("ask"))).run
    hands.hold(run)
    hands.die()

    says(
        run,
        r"At work on “ask” since AT \(worker-steps on test, which has died; "
        r"its work is handed on; no conductor has run here yet\).",
    )


def test_the_time_of_its_worker_is_over(house, conductor):
    run = spawn_run(factories.workflow(house, factories.gate("ask"))).run
    hands.hold(run)
    hands.sql("UPDATE workflows_run SET held_until = now() - interval '1 s'")

    says(
        run, r".*\(worker-steps on test, silent since AT; its work is handed on now\)."
    )


def test_asleep(house, conductor):
    run = hands.go_on(spawn_run(factories.workflow(house, factories.sleep())).run)

    says(run, "Asleep until AT.")
    hands.sql("UPDATE workflows_run SET due_at = now() - interval '1 minute'")
    says(run, "Asleep until AT.")


def test_nobody_wakes_it(house):
    pulse("conductor", seen_at=Now() - timedelta(minutes=10))
    run = hands.go_on(spawn_run(factories.workflow(house, factories.sleep())).run)

    says(run, "Asleep until AT.")
    hands.sql("UPDATE workflows_run SET due_at = now() - interval '1 minute'")
    says(
        run,
        "Asleep until AT. That time has passed: no conductor has been seen since AT.",
    )


def test_to_be_tried_again(house, calls, conductor):
    calls.faults = 1
    step = factories.call("pay", "work", retries={"limit": 2, "delay": "30m"})
    run = hands.go_on(spawn_run(factories.workflow(house, step)).run)

    says(run, "“pay” failed; it is tried again at AT.")


def test_a_question_names_whom_since_when_and_until_when(house, alice, conductor):
    step = factories.gate("ship", who=["alice"], deadline="1h")
    run = hands.go_on(spawn_run(factories.workflow(house, step)).run)

    says(run, "Waiting for alice to answer “ship” since AT, until AT.")


def test_a_command_at_work_and_where(house, conductor):
    run = asked(house)
    hands.take(run)

    says(
        run,
        r"Waiting for runner to finish “build”, since AT "
        r"\(worker-turns on test, seen \d+ s ago\).",
    )


def test_a_command_whose_worker_has_stopped(house, conductor):
    run = asked(house)
    hands.take(run)
    hands.sql("UPDATE threads_pulse SET seen_at = now() - interval '40 s'")

    says(run, r".*silent since AT; its work is taken over at AT at the latest\).")


def test_a_command_nobody_takes(house, conductor):
    says(
        asked(house),
        "Waiting for a worker that can run it: no worker for “turns” is up.",
    )


def test_a_command_whose_files_no_worker_sees_names_the_root_and_who_is_up(
    house, conductor
):
    run = asked(house)
    hands.sql("UPDATE threads_turn SET root = 'far'")
    pulse("worker-turns", root="near")

    says(
        run,
        "Waiting for a worker that can run it: its files lie under the workspace root "
        r"far, which no worker here sees; up are worker-turns on h1 \(near\).",
    )


def test_a_command_that_was_cut_off_says_when_it_is_tried_again(house, conductor):
    run = asked(house)
    hands.sql(
        "UPDATE threads_turn SET faults = 1, reason = 'it was cut off before it ended',"
        " ready_at = now() + interval '1 minute'"
    )

    says(
        run,
        r"“build” was interrupted \(it was cut off before it ended\); "
        "it is tried again at AT.",
    )


def test_a_paused_workflow_says_why(house, alice, conductor):
    flow = factories.workflow(house, factories.gate())
    authoring.pause_workflow(flow, reason="the season is over")
    run = spawn_run(flow).run

    says(run, "Not started: the workflow is paused: the season is over.")


def test_a_place_that_is_taken_names_who_has_it(house, conductor):
    flow = factories.workflow(house, factories.gate(), overlap="wait")
    first = hands.go_on(spawn_run(flow).run)

    says(
        spawn_run(flow).run,
        rf"Not started: it waits for run {first.pk} \(waiting\) to end.",
    )


def test_the_workers_of_another_stack_are_of_no_use(house, conductor):
    pulse("worker-steps", namespace="staging")

    says(ready(house), ".*: no worker for “steps” is up.")


def test_show_and_lists_say_that_a_kind_is_unknown(wf, house, alice, conductor):
    run = spawn_run(factories.workflow(house, factories.gate())).run
    reason = "no worker here knows the step kind “paint_fence” yet"
    hands.sql("UPDATE workflows_run SET needs = 'paint_fence', deferred = %s", reason)

    for command in (("show", run.pk), ("why", run.pk), ("runs",)):
        assert reason in wf(*command).stdout, command
    waits = wf("show", run.pk, "--json").document["waiting_for"]
    assert waits["kind"] == "worker"
    assert drive.bodies(run) == ["Started by System."]
