from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.peers import compare

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def found(tmp_path: Path) -> Any:
    report = tmp_path / "report.json"
    argv = [sys.executable, "-m", "tests.bench", "--quick", "--only", "P1"]
    subprocess.run([*argv, "--json", report], cwd=ROOT, check=True, timeout=150)
    return json.loads(report.read_text())


def test_the_bench_reports_that_every_step_ran_once(found):
    figures = found["figures"]

    assert [figure["id"] for figure in figures] == [
        "P1 calls, 1 process",
        "P1 calls, 2 processes",
    ]
    for figure in figures:
        assert figure["completed"] == figure["expected"] == 200
        assert figure["repeated"] == 0
        assert figure["values"]["steps/s"] > 0


def test_the_bench_refuses_a_figure_nobody_knows():
    argv = [sys.executable, "-m", "tests.bench", "--only", "P99"]

    ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)

    assert ended.returncode == 2
    assert "P99 is none of P1, P2" in ended.stderr


def score(id_: str, unit: str, **values: float) -> compare.Score:
    return compare.Score(id_, unit, {name: [value] for name, value in values.items()})


def test_a_figure_says_whether_its_targets_are_met():
    rate = score("P1, 1 process", "steps/s", Threadwork=1300, Absurd=1000, DBOS=500)
    start = score("P2 start", "p50 ms", Threadwork=9, Absurd=30, DBOS=40, Celery=4)

    assert compare.targets(rate) == [
        ("at least 1.25 x Absurd's best (1.30)", True),
        ("at least 3 x DBOS's best (2.60)", False),
    ]
    assert [met for _, met in compare.targets(start)] == [True, True]


def test_a_peer_that_is_not_there_is_no_target_met():
    alone = score("P3 answer", "p50 ms", Threadwork=9)

    assert [compare.said(met) for _, met in compare.targets(alone)] == [
        "not compared",
        "not compared",
    ]
