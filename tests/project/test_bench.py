from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
