"""Every figure by its id. Django is set up by the time this is imported."""

from __future__ import annotations

from collections.abc import Callable

from tests.bench import crash, latency, scale, throughput
from tests.bench.bed import Bed, Figure
from tests.harness import Stack

Measure = Callable[[Bed, float], list[Figure]]

FIGURES: dict[str, Measure] = {
    "P1": throughput.calls,
    "P2": latency.starts,
    "P3": latency.answers,
    "P4": latency.sleepers,
    "P5": crash.crashes,
    "P6": scale.crowds,
    "P7": throughput.commands,
}


def measure(stack: Stack, ids: list[str], *, share: float) -> list[Figure]:
    """Measure figures one after another, at a share of their sizes."""
    bed = Bed(stack)
    try:
        return [figure for name in ids for figure in FIGURES[name](bed, share)]
    finally:
        bed.aside.close()
