"""How a step ended, which step runs next, how a run ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

When = Literal["on_success", "on_failure", "always"]
OnError = Literal["stop", "continue"]
State = Literal["completed", "failed", "skipped"]

LONGEST_DELAY = 7 * 86_400.0  # seconds; only a delay asked for outright is longer


@dataclass(frozen=True)
class Outcome:
    """How a step or a run ended. Failure is a value, never an exception."""

    result: State
    reason: str = ""
    data: Mapping[str, object] = field(default_factory=dict)
    step: str = ""  # of a failed run: the step that failed it


@dataclass(frozen=True)
class Past:
    """A step that is behind the run."""

    name: str
    state: State | Literal["cancelled"]
    on_error: OnError = "stop"
    reason: str = ""


class Retries(Protocol):
    """What a step says about trying again."""

    @property
    def limit(self) -> int: ...
    @property
    def delay(self) -> float: ...
    @property
    def backoff(self) -> float: ...


def should_run(when: When, past: Sequence[Past]) -> bool:
    """Return whether a step runs after these, in the order of the plan.

    After a failure that stops, only steps for failures and for always are left to run.
    """
    if when == "always":
        return True
    if any(_stops(step) for step in past):
        return when == "on_failure"
    nearest = next((step for step in reversed(past) if step.state != "skipped"), None)
    if when == "on_failure":
        return nearest is not None and nearest.state == "failed"
    # A failure still in sight here said `on_error: continue`.
    return True


def run_result(past: Sequence[Past]) -> Outcome:
    """Return how a run ends that has all its steps behind it."""
    stopped = next((step for step in past if _stops(step)), None)
    if stopped is None:
        return Outcome("completed")
    return Outcome("failed", reason=stopped.reason, step=stopped.name)


class Repeat(Protocol):
    """What a step says about running again."""

    @property
    def times(self) -> int | None: ...
    @property
    def until(self) -> str | None: ...


def repeats(repeat: Repeat | None, iteration: int, state: str) -> bool:
    """Return whether another iteration follows the one that ended like this."""
    if repeat is None or state not in {"completed", "failed"}:
        return False
    wanted = {"success": "completed", "failure": "failed"}.get(repeat.until or "")
    left = repeat.times is None or iteration < repeat.times
    return left and state != wanted


def repeated(repeat: Repeat | None, ends: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return the state and reason of a step from those of its iterations, in order.

    It ends as its last iteration did; only where it was to run a number of times, one
    that failed fails it.
    """
    state, reason = ends[-1]
    failed = [why for one, why in ends if one == "failed"]
    if repeat is None or repeat.until or state in {"skipped", "cancelled"}:
        return state, reason
    if not failed or len(ends) == 1:
        return state, reason
    words = f"{len(failed)} of {len(ends)} iterations failed, the last: {failed[-1]}"
    return "failed", words


def retry_delay(
    retries: Retries | None, tries: int, *, jitter: float = 0.0
) -> float | None:
    """Return the seconds before the next try, or None when no try is left.

    `tries` counts those that ended; `jitter` is a share of the delay, from 0 to 1.
    """
    if retries is None or tries > retries.limit:
        return None
    return _grown(retries, tries) * (1 + jitter)


def _grown(retries: Retries, tries: int) -> float:
    try:
        grown = float(retries.delay * retries.backoff ** max(tries - 1, 0))
    except OverflowError:
        grown = LONGEST_DELAY
    return min(grown, max(LONGEST_DELAY, float(retries.delay)))


def _stops(step: Past) -> bool:
    return step.state == "failed" and step.on_error == "stop"
