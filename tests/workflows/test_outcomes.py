from __future__ import annotations

from itertools import product

import pytest

from workflows.outcomes import (
    OnError,
    Outcome,
    Past,
    Retries,
    State,
    retry_delay,
    run_result,
    should_run,
)
from workflows.steps import Retries as PlanRetries

MARKS: dict[str, tuple[State, OnError]] = {
    "ok": ("completed", "stop"),
    "stop": ("failed", "stop"),
    "cont": ("failed", "continue"),
    "skip": ("skipped", "stop"),
}


def past(words: str) -> list[Past]:
    return [
        Past(f"{word}-{number}", *MARKS[word], reason=f"reason {number}")
        for number, word in enumerate(words.split())
    ]


@pytest.mark.parametrize(
    ("behind", "on_success", "on_failure"),
    [
        # what is behind the run          on_success  on_failure
        ("", True, False),
        ("ok", True, False),
        ("skip", True, False),
        ("skip skip", True, False),
        ("ok skip", True, False),
        ("ok ok", True, False),
        # a failure that continues counts as failed for one, as done for the other
        ("cont", True, True),
        ("ok cont", True, True),
        ("cont skip", True, True),
        ("cont skip skip", True, True),
        ("cont ok", True, False),
        ("cont skip ok", True, False),
        ("cont ok skip", True, False),
        ("cont cont", True, True),
        # a failure that stops leaves only failure handlers and always
        ("stop", False, True),
        ("ok stop", False, True),
        ("stop skip", False, True),
        ("stop skip skip", False, True),
        ("stop ok", False, True),
        ("stop ok skip", False, True),
        ("stop skip ok", False, True),
        ("stop ok ok", False, True),
        ("stop cont", False, True),
        ("stop stop", False, True),
        ("cont stop", False, True),
        ("cont ok stop skip ok", False, True),
    ],
)
def test_when_looks_at_the_nearest_step_that_was_not_skipped(
    behind, on_success, on_failure
):
    assert should_run("on_success", past(behind)) is on_success
    assert should_run("on_failure", past(behind)) is on_failure


@pytest.mark.parametrize("words", list(product(MARKS, repeat=3)))
def test_an_always_step_always_runs(words):
    assert should_run("always", past(" ".join(words)))


@pytest.mark.parametrize("words", list(product(MARKS, repeat=3)))
def test_after_a_failure_that_stops_no_success_step_runs(words):
    assert should_run("on_success", past(" ".join(words))) is ("stop" not in words)


@pytest.mark.parametrize("words", list(product(MARKS, repeat=3)))
def test_skipped_steps_change_nothing(words):
    with_skips = past(" ".join(words))
    without = [step for step in with_skips if step.state != "skipped"]

    for when in ("on_success", "on_failure", "always"):
        assert should_run(when, with_skips) is should_run(when, without)
    assert run_result(with_skips) == run_result(without)


@pytest.mark.parametrize(
    "behind", ["", "ok", "skip", "cont", "cont ok", "ok cont skip"]
)
def test_a_run_without_a_failure_that_stops_completes(behind):
    assert run_result(past(behind)) == Outcome("completed")


@pytest.mark.parametrize(
    ("behind", "step", "reason"),
    [
        ("stop", "stop-0", "reason 0"),
        ("ok stop skip", "stop-1", "reason 1"),
        ("cont stop ok", "stop-1", "reason 1"),
        ("stop ok stop", "stop-0", "reason 0"),
    ],
)
def test_a_run_fails_with_its_first_failure_that_stops(behind, step, reason):
    assert run_result(past(behind)) == Outcome("failed", reason=reason, step=step)


def retries(limit: int, delay: float = 10, backoff: float = 2.0) -> Retries:
    return PlanRetries(limit=limit, delay=delay, backoff=backoff)


def test_a_step_without_retries_is_tried_once():
    assert retry_delay(None, 1) is None
    assert retry_delay(retries(0), 1) is None


def test_each_retry_waits_longer_until_none_is_left():
    delays = [retry_delay(retries(3), tries) for tries in range(1, 6)]

    assert delays == [10, 20, 40, None, None]


def test_without_a_backoff_the_delay_stays():
    assert [retry_delay(retries(2, backoff=1.0), tries) for tries in (1, 2)] == [10, 10]


def test_a_jitter_lengthens_the_delay_by_its_share():
    assert retry_delay(retries(1), 1, jitter=0.25) == 12.5


@pytest.mark.parametrize("backoff", [2.0, 100.0])
def test_a_backoff_never_overflows(backoff):
    assert retry_delay(retries(100, 3600, backoff), 100) == 7 * 86_400


def test_a_delay_asked_for_outright_is_kept():
    assert retry_delay(retries(1, 30 * 86_400), 1) == 30 * 86_400
