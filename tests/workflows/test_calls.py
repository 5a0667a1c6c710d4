"""`call` steps: a function or a shop's own Celery task as a durable step (C11)."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from project import env
from tests import drive, factories, hands, shop
from workflows import calling, plan, selectors
from workflows.engine import advance, lengthy
from workflows.models import Attempt, Checkpoint, Run
from workflows.services import look, spawn_run

TASKS = {
    "nightly": "celery:tests.shop.nightly",
    "bound": f"celery:{shop.bound.name}",
    "again": "celery:tests.shop.stubborn_retry",
    "flaky": "celery:tests.shop.flaky",
    "nothing": "celery:tests.shop.nothing_to_do",
    "refuse": "celery:tests.shop.refuse",
    "broken": "celery:tests.shop.broken",
    "own": "celery:tests.shop.own_task",
    "lost": "celery:tests.shop.gone",
    "nowhere": "celery:not.here.either",
}
FUNCTIONS = {
    name: f"tests.shop.{name}" for name in ("told", "add", "later", "leave", "here")
}


@pytest.fixture(autouse=True)
def allowed(settings, calls):
    settings.CALLS = {
        "work": "quick:tests.hands.called",
        "quickly": "quick:tests.shop.told",
        "dict": "quick:builtins.dict",
        "complex": "quick:builtins.complex",
        "float": "quick:builtins.float",
        **FUNCTIONS,
        **TASKS,
    }


def start(house, *steps, **more):
    return spawn_run(factories.workflow(house, *steps, **more)).run


def called(house, function, args=None, **more):
    """Carry a run of one call through; return its step's record."""
    run = drive.carry(
        start(house, factories.call("one", function, args=args or {}, **more))
    )
    assert run.state in {"completed", "failed"}
    return Checkpoint.objects.get(run=run)


def result(house, function, args=None, **more):
    step = called(house, function, args, **more)
    assert step.error == ""
    return step.result["result"]


def error(house, function, args=None, **more):
    step = called(house, function, args, **more)
    assert step.state == "failed"
    return step.error


# Where it runs


def test_a_function_is_handed_over_to_the_workers_that_may_wait(
    house, posted, django_capture_on_commit_callbacks
):
    run = start(house, factories.call("one", "add", args={"a": 1}))
    with django_capture_on_commit_callbacks(execute=True):
        hands.go_on(run)

    assert (run.state, run.pool, run.holder, run.attempts) == (
        "pending", "turns", None, 1,
    )  # fmt: skip
    assert posted[-1] == ("workflows.advance", "turns", "turns", str(run.pk))
    assert drive.carry(run).state == "completed"
    assert Attempt.objects.filter(run=run).count() == 1
    assert drive.bodies(run)[1:] == ["Call add(a=1)", "add returned 2", "Completed."]


def test_what_is_listed_as_quick_stays_where_the_run_is(house):
    run = hands.go_on(start(house, factories.call("one", "quickly")))

    assert run.state == "completed"


@pytest.mark.parametrize("more", [{"timeout": 5}, {"if_interrupted": "fail"}])
def test_a_quick_one_that_may_not_be_quick_leaves_too(house, more):
    run = hands.go_on(start(house, factories.call("one", "quickly", **more)))

    assert (run.state, run.pool) == ("pending", "turns")


def test_quick_steps_that_follow_are_taken_in_place(house):
    steps = [factories.call("one", "add", args={"a": 1}), factories.call("two", "work")]
    run = hands.go_on(start(house, *steps))

    assert hands.go_on_there(run).state == "completed"


def test_the_run_is_back_on_its_own_pool_when_it_waits(house):
    steps = [factories.call("one", "add", args={"a": 1}), factories.gate("ask")]
    run = hands.go_on_there(hands.go_on(start(house, *steps)))

    assert (run.state, run.pool) == ("waiting", "steps")


@pytest.mark.parametrize(
    ("step", "pool"),
    [
        (factories.call("two", "work"), "steps"),
        (factories.call("two", "add", args={"a": 1}), "turns"),
    ],
)
def test_a_spent_slice_hands_the_run_to_the_pool_of_its_next_step(
    house, settings, posted, step, pool, django_capture_on_commit_callbacks
):
    first = factories.call("one", "add", args={"a": 1})
    run = hands.go_on(start(house, first, step))
    settings.SLICE_SECONDS = 0

    with django_capture_on_commit_callbacks(execute=True):
        hands.go_on_there(run, once=True)

    assert (run.state, run.pool, run.position) == ("pending", pool, 1)
    assert ("workflows.advance", pool, pool, str(run.pk)) in posted


def test_a_run_at_its_end_is_settled_in_place(house, settings):
    run = hands.go_on(start(house, factories.call("one", "add", args={"a": 1})))
    settings.SLICE_SECONDS = 0

    assert hands.go_on_there(run, once=True).state == "completed"


def test_a_run_that_was_taken_over_is_not_handed_over(house):
    run = start(house, factories.call("one", "add", args={"a": 1}))
    held = hands.hold(run)
    hands.sql("UPDATE workflows_run SET attempts = attempts + 1")

    advance.carry(held, end=float("inf"))

    run.refresh_from_db()
    assert (run.state, run.pool) == ("running", "steps")


# What it is told


def test_a_call_knows_its_step_its_key_and_its_attempt(house):
    step = called(house, "told", {"n": 1})

    key = f"{step.run_id}:0"
    assert step.result["result"] == {"step": "one", "key": key, "attempt": 1, "n": 1}
    assert calling.current() is None


def test_the_key_stays_and_the_attempt_counts_when_a_worker_dies(house):
    run = hands.go_on(start(house, factories.call("one", "told")))
    begun_and_died(run)

    drive.carry(run)

    found = Checkpoint.objects.get(run=run)
    key = f"{run.pk}:0"
    assert found.result == {"result": {"step": "one", "key": key, "attempt": 2}}
    assert drive.bodies(run).count("Call told()") == 1


def begun_and_died(run):
    """Open the step of a call as its worker does, and let that worker die."""
    held = hands.hold(run, role="worker-turns", pool="turns")
    step = selectors.step_at(held.plan, 0)
    assert isinstance(step, plan.Call)
    lengthy.open_step(held, step, f"Call {step.function}()")
    hands.die("worker-turns")
    assert look(run.pk)
    hands.sql("UPDATE threads_pulse SET name = name || id || random()")


def test_a_call_not_to_be_repeated_fails_where_nobody_knows_its_end(house):
    step = factories.call("one", "told", if_interrupted="fail")
    run = hands.go_on(start(house, step))
    begun_and_died(run)

    drive.carry(run)

    assert hands.failure(run)[1].startswith("the worker died while it ran")


# What it is given and what it returns


@pytest.mark.parametrize(
    ("function", "args", "reason"),
    [
        ("add", {"a": 1, "x": 2}, "“add” takes no argument “x”"),
        ("add", {"b": 1}, "“add” needs the argument “a”"),
        ("nightly", {"day": "x", "night": "y"}, "“nightly” takes no argument “night”"),
        ("bound", {"self": "x"}, "“bound” takes no argument “self”"),
    ],
)
def test_an_argument_that_does_not_fit_is_named_and_not_tried_again(
    house, function, args, reason
):
    retries = {"limit": 3, "delay": 60}

    assert error(house, function, args, retries=retries) == reason


def test_a_coroutine_is_awaited(house):
    assert result(house, "later", {"a": 4}) == 4


def test_what_leaves_the_process_fails_the_step_alone(house):
    assert error(house, "leave") == "SystemExit: enough"


def test_broken_text_in_a_result_is_mended(house):
    run = drive.carry(spawn_run(
        factories.workflow(house, factories.call("one", "work", args={"value": "{{n}}"})),
        payload={"n": "x"},
    ).run)  # fmt: skip
    assert run.state == "completed"
    hands.called.value = {"a\0": ["b\ud800", 1]}

    assert result(house, "work") == {"a\ufffd": ["b\ufffd", 1]}


@pytest.mark.parametrize(
    ("function", "args", "reason"),
    [
        ("float", {}, None),
        ("complex", {"real": 1, "imag": 2}, "complex"),
    ],
)
def test_what_json_cannot_say_fails_in_words(house, function, args, reason):
    if reason is None:
        hands.called.value = float("nan")
        said = error(house, "work")
    else:
        said = error(house, function, args)

    assert said.startswith("what it returned cannot be kept: ")


def test_a_result_too_large_fails_in_words(house, settings):
    settings.CALL_RESULT_LIMIT = 1000
    hands.called.value = "x" * 1001

    assert error(house, "work") == (
        "what it returned is too large to keep: 1,003 bytes, and 1,000 are allowed"
    )


def test_the_thread_shows_a_large_value_shortened(house):
    hands.called.value = "y" * 900_000
    step = called(house, "work", {"value": "x" * 50_000})

    call, returned = drive.bodies(Run.objects.get(pk=step.run_id))[1:3]
    assert call == f"Call work(value={'x' * 200}… (50,000 characters in all))"
    assert returned.endswith("… (900,000 characters in all)")
    assert len(returned) < 2100
    assert len(step.result["result"]) == 900_000


# A shop's Celery task


def test_a_task_by_its_name_is_a_step(house):
    assert result(house, "nightly", {"day": "monday"}) == "report of monday"


def test_a_bound_task_finds_the_key_in_its_request(house):
    step = called(house, "bound")

    key = f"{step.run_id}:0"
    assert step.result["result"] == {
        "id": key,
        "retries": 0,
        "threadwork_run": str(step.run_id),
        "threadwork_step": "one",
        "threadwork_key": key,
        "threadwork_attempt": 1,
    }


def test_a_task_of_the_shops_own_app_is_found(house):
    assert result(house, "own", {"n": 4}) == 8


@pytest.mark.parametrize("function", ["lost", "nowhere"])
def test_a_task_that_nobody_knows_is_named(house, function):
    name = TASKS[function].removeprefix("celery:")

    assert error(house, function) == f"no worker here knows a function called “{name}”"


def test_a_task_that_asks_for_a_retry_is_a_failed_try_and_no_loop(house, monkeypatch):
    sent: list[object] = []
    monkeypatch.setattr("celery.Celery.send_task", lambda *a, **k: sent.append(a))

    assert error(house, "again") == (
        "“again” asked to be tried again: ConnectionError: no line"
    )
    assert sent == []


def test_the_steps_own_retries_decide_when_it_is_tried_again(house):
    step = factories.call("one", "flaky", retries={"limit": 1, "delay": 60})
    run = drive.carry(start(house, step))

    assert run.state == "sleeping"
    assert (run.pool, Checkpoint.objects.get(run=run).tries) == ("steps", 2)
    drive.wake(run)
    assert hands.failure(run)[1] == (
        "“flaky” asked to be tried again: ValueError: not today"
    )


def test_a_task_that_ignores_itself_completes_with_nothing(house):
    assert result(house, "nothing") is None


def test_a_task_that_rejects_fails_with_its_reason(house):
    assert error(house, "refuse") == "“refuse” refused: the books are closed"


def test_a_task_that_raises_fails_in_its_words(house):
    assert error(house, "broken") == "LookupError: no such account"


# The allow-list


def test_the_allow_list_is_read_or_refused_by_its_name(monkeypatch):
    monkeypatch.setenv("CALLS", "a=b.c, q=quick:b.c,n=celery:app.tasks.x")
    assert env.calls("CALLS") == {
        "a": "b.c",
        "q": "quick:b.c",
        "n": "celery:app.tasks.x",
    }
    for wrong in ("a", "a=", "=b.c", "a=slow:b.c"):
        monkeypatch.setenv("CALLS", wrong)
        with pytest.raises(ImproperlyConfigured, match="CALLS"):
            env.calls("CALLS")


def test_a_worker_that_stood_still_after_it_said_so_calls_nothing(
    house, monkeypatch, settings, calls
):
    """Stopped between the line in the thread and the call, and taken over meanwhile."""
    opened = lengthy.open_step

    def stands_still(held, step, words):
        opened(held, step, words)
        held.since -= settings.LEASE_SECONDS
        Run.objects.filter(pk=held.id).update(attempts=2, holder=drive.holder("other"))

    settings.CALLS["slowly"] = "tests.hands.called"
    monkeypatch.setattr(lengthy, "open_step", stands_still)
    run = drive.carry(start(house, factories.call("one", "slowly")))

    assert run.state == "running"
    assert run.attempts == 2
    assert calls.seen == []
    assert Checkpoint.objects.get(run=run).state == "running"
