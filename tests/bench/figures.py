"""Every figure by its id. Django is set up by the time this is imported."""

from __future__ import annotations

from collections.abc import Callable

from tests.bench import crash, latency, scale, throughput
from tests.bench.bed import Bed, Figure
from tests.bench.peers import compare
from tests.harness import Stack

Measure = Callable[[Bed, float], list[Figure]]

FIGURES: dict[str, Measure] = {
    "P1": throughput.calls,
    "P2": latency.starts,
    "P3": latency.resumptions,
    "P4": latency.sleepers,
    "P5": crash.crashes,
    "P6": scale.crowds,
    "P7": throughput.commands,
}


def measure(
    stack: Stack, ids: list[str], *, share: float, peers: bool = False
) -> list[Figure]:
    """Measure figures one after another, at a share of their sizes."""
    bed = Bed(stack)
    try:
        found = [figure for name in ids for figure in FIGURES[name](bed, share)]
        return [*found, *(compare.compare(bed, share, ids) if peers else [])]
    finally:
        bed.aside.close()
