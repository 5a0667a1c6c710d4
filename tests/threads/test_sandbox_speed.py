from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.threads.sandboxes import needs_bubblewrap, run
from threads.runtime.sandbox.bubblewrap import find_binary

ROUNDS = 40
BARE = [
    *("--die-with-parent", "--unshare-user", "--disable-userns", "--unshare-pid"),
    *("--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--unshare-net"),
    *("--cap-drop", "ALL", "--clearenv", "--ro-bind", "/usr", "/usr"),
    *("--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"),
    *("--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev"),
    *("--tmpfs", "/tmp"),  # noqa: S108  inside
]


@needs_bubblewrap
def test_what_a_command_costs_beside_bare_bubblewrap(tmp_path):
    """Say it; what is measured beside others' work is nothing to fail for."""
    for name in ("process", "bubblewrap"):
        (tmp_path / name).mkdir()

    def bare() -> None:
        argv = [find_binary(), *BARE, "--", "/bin/sh", "-c", "true"]
        subprocess.run(argv, check=True, env={})

    costs = interleaved(
        {
            "bare bubblewrap": bare,
            "bubblewrap": lambda: ours("bubblewrap", tmp_path),
            "process": lambda: ours("process", tmp_path),
        }
    )

    for name, cost in costs.items():
        ratio = costs["bare bubblewrap"] / cost
        sys.stdout.write(f"{name}: {cost:.1f} ms, {ratio:.0%} of bare's rate\n")
    assert all(costs.values())


def ours(box: str, folder: Path) -> None:
    assert run(box, folder / box, "true").exit_code == 0


def interleaved(ways: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Return the median milliseconds of each, run in turns on the same machine."""
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            spent[name].append((time.perf_counter() - began) * 1000)
    return {name: statistics.median(times) for name, times in spent.items()}
