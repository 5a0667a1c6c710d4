from __future__ import annotations

import time

import pytest

from tests.threads.sandboxes import alive, each, nap, run, until
from threads.runtime.sandbox.protocol import Stop

STUBBORN = [
    "{nap} & wait",
    'sh -c "{nap}"',
    "trap '' TERM; {nap}",
    "nohup {nap} >/dev/null 2>&1 & {nap}",
    "setsid {nap} & setsid -f {nap}; {nap}",
    "(trap '' TERM HUP; ({nap} &) & ) ; trap '' TERM; while :; do {nap}; done",
]


@each
@pytest.mark.parametrize("script", STUBBORN)
def test_a_timeout_leaves_nobody(box, tmp_path, script):
    mark = nap()
    began = time.monotonic()

    result = run(box, tmp_path, "echo before; " + script.format(nap=mark), timeout=1.0)

    assert time.monotonic() - began < 6
    assert result.timed_out
    assert result.output.startswith("before\n")
    assert not result.interrupted
    until(lambda: not alive(mark), seconds=2)


@each
def test_a_command_that_ends_takes_what_it_left_behind(box, tmp_path):
    mark = nap()
    began = time.monotonic()

    result = run(box, tmp_path, f"{mark} & setsid -f {mark}; echo done")

    assert (result.exit_code, result.output) == (0, "done\n")
    assert time.monotonic() - began < 5
    assert not alive(mark)


@each
def test_a_cancel_gives_the_grace_and_ends_all(box, tmp_path):
    mark = nap()
    seen: list[str] = []
    script = f"trap 'echo tidy; exit 5' TERM; echo up; {mark} & wait"

    result = run(
        box,
        tmp_path,
        script,
        emit=seen.append,
        stop=lambda: Stop.CANCEL if seen else None,
        grace=5.0,
    )

    assert result.cancelled
    assert (result.output, result.exit_code) == ("up\ntidy\n", 5)
    assert not (result.interrupted)
    assert not (result.timed_out)
    assert not alive(mark)
    assert (tmp_path / "record" / "record.json").exists()


@each
def test_a_cancel_nobody_obeys_is_over_after_the_grace(box, tmp_path):
    mark = nap()
    seen: list[str] = []
    began = time.monotonic()

    result = run(
        box,
        tmp_path,
        f"trap '' TERM; echo up; {mark} & {mark}",
        emit=seen.append,
        stop=lambda: Stop.CANCEL if seen else None,
        grace=1.0,
    )

    assert result.cancelled
    assert 1.0 < time.monotonic() - began < 6
    assert not alive(mark)


@each
@pytest.mark.parametrize("why", [Stop.DRAIN, Stop.LOST])
def test_a_drained_or_lost_command_leaves_no_record(box, tmp_path, why):
    mark = nap()
    seen: list[str] = []

    result = run(
        box,
        tmp_path,
        f"echo up; {mark}",
        emit=seen.append,
        stop=lambda: why if seen else None,
    )

    assert result.interrupted
    assert not result.cancelled
    assert not (tmp_path / "record" / "record.json").exists()
    assert not alive(mark)


@each
def test_a_stop_before_the_beginning_begins_nothing_that_lasts(box, tmp_path):
    mark = nap()
    began = time.monotonic()

    result = run(box, tmp_path, mark, stop=lambda: Stop.CANCEL)

    assert result.cancelled
    assert time.monotonic() - began < 6
    assert not alive(mark)


@each
def test_stop_is_asked_at_least_five_times_a_second(box, tmp_path):
    asked: list[float] = []

    run(box, tmp_path, "sleep 1.5", stop=lambda: asked.append(time.monotonic()))

    assert len(asked) > 7


@each
def test_a_command_that_ends_with_the_cancel_keeps_its_outcome_or_is_cancelled(
    box, tmp_path
):
    seen: list[str] = []

    result = run(
        box,
        tmp_path,
        "echo up; exit 3",
        emit=seen.append,
        stop=lambda: Stop.CANCEL if seen else None,
    )

    assert result.exit_code == 3
    assert not result.cancelled
