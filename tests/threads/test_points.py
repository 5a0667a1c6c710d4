"""The crash kit: every place has a name, and an order is carried out where it says."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from threads import points

ROOT = Path(__file__).resolve().parents[2]
WALK = """
import os, sys
from threads import points
points.here.role = "worker-steps"
for name in sys.argv[1:]:
    points.reached(name)
    print(name, flush=True)
"""


def named() -> Iterator[str]:
    """Yield each place that the code names."""
    for top in ("project", "threads", "workflows"):
        for path in (ROOT / top).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    yield from places(node)


def places(call: ast.Call) -> list[str]:
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="points"), attr=verb),
            args=[ast.Constant(value=str(name))],
        ):
            both = [f"{name}.written", f"{name}.committed"]
            return both if verb == "written" else [name]
        case ast.Call(func=ast.Attribute(value=ast.Name(id="points"))):
            raise AssertionError(f"a place without a name: {ast.dump(call)}")
        case _:
            return []


def test_each_place_in_the_code_is_in_the_registry_and_the_other_way_round():
    assert set(named()) == set(points.PLACES)


def test_a_place_costs_nothing_and_ends_nobody_where_no_order_is_given():
    assert points.ORDERS == ""

    points.reached("advance.recorded")


def test_a_place_that_nobody_knows_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(points, "ORDERS", str(tmp_path / "orders"))

    with pytest.raises(points.NoSuchPlace, match=r"advance\.dreamt"):
        points.reached("advance.dreamt")


@pytest.mark.parametrize(
    "words", ["advance.dreamt", "advance", "advance.claimed:x", "halt advance.claimed"]
)
def test_an_order_that_names_no_place_is_refused(words):
    with pytest.raises(points.NoSuchPlace):
        points.parse(words)


def test_an_order_names_a_place_a_count_a_role_and_whether_to_stop():
    assert points.parse("stop advance.recorded:3@worker-steps") == points.Order(
        "advance.recorded", 3, "worker-steps", stop=True
    )


def walk(orders: str, *names: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WALK, *names],
        cwd=ROOT,
        env={**os.environ, "THREADWORK_DIE": orders},
        stdout=subprocess.PIPE,
        text=True,
    )


CLAIMS = ["advance.claimed"] * 3


def test_a_word_ends_the_process_at_that_arrival_by_a_signal():
    process = walk("advance.claimed:3", "turn.claimed", *CLAIMS)

    said, _ = process.communicate(timeout=20)

    assert process.returncode == -signal.SIGKILL
    assert said.split() == ["turn.claimed", "advance.claimed", "advance.claimed"]


@pytest.mark.parametrize("words", ["advance.claimed@conductor", "advance.claimed:4"])
def test_another_role_or_too_few_arrivals_end_nobody(words):
    process = walk(words, *CLAIMS)

    said, _ = process.communicate(timeout=20)

    assert (process.returncode, len(said.split())) == (0, 3)


def test_a_files_orders_are_carried_out_once_in_turn_and_counted_over_all(tmp_path):
    orders = tmp_path / "orders"
    orders.write_text("advance.claimed:4\nturn.claimed\n")

    ends = [walk(str(orders), *CLAIMS, "turn.claimed") for _ in range(4)]
    codes = []
    for process in ends:
        process.communicate(timeout=20)
        codes.append(process.returncode)

    assert sorted(codes) == [-9, -9, 0, 0]
    assert not orders.exists()
    done = orders.with_suffix(".done").read_text().splitlines()
    assert [line.split()[0] for line in done] == ["advance.claimed:4", "turn.claimed"]


def test_a_process_stops_where_it_is_told_to_and_goes_on_when_woken(tmp_path):
    orders = tmp_path / "orders"
    orders.write_text("stop advance.claimed:2")
    process = walk(str(orders), *CLAIMS)
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert orders.with_suffix(".done").read_text().split()[-1] == str(process.pid)

        process.send_signal(signal.SIGCONT)

        assert len(process.communicate(timeout=20)[0].split()) == 3
    finally:
        process.kill()
    assert process.returncode == 0


def test_a_list_tells_who_reached_what_and_ends_nobody(tmp_path):
    orders = tmp_path / "orders"
    orders.write_text("list")

    walk(str(orders), "advance.claimed").communicate(timeout=20)

    assert orders.with_suffix(".list").read_text() == "worker-steps advance.claimed\n"
    assert orders.exists()
