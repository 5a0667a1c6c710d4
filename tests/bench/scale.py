"""P6: what the parked and the past cost the living, and a parked run itself."""

from __future__ import annotations

from django.db import connection

from tests import drive, factories, scale
from tests.bench import latency, throughput
from tests.bench.bed import Bed, Figure
from tests.hands import go_on
from threads import gates
from workflows.models import Run

ALONE, PARKED, SETTLED = "empty", "100,000 parked", "1,000,000 settled"
MOST_BYTES = 3000  # of a parked run with its thread and three entries
MOST_SLOWER = 1.10  # of the empty database's, give or take the noise of a round
COMPARED = {
    "P1 calls, 1 process": "share of floor",
    "P2 start": "p50 ms",
}


def crowds(bed: Bed, share: float) -> list[Figure]:
    """P6: P1 and P2 on an empty database, among the parked, and after a long past."""
    before = size()
    figures = living(bed, share, ALONE)
    parked = int(100_000 * share)
    park(bed, parked)
    each = (size() - before) / parked
    crowded = living(bed, share, PARKED)
    remember(bed, int(1_000_000 * share))
    aged = living(bed, share, SETTLED)
    cost = {"bytes of a parked run": round(each), **ratios(figures, crowded, "parked")}
    cost |= ratios(figures, aged, "settled")
    done = sum(f.completed for f in [*figures, *crowded, *aged])
    expected = sum(f.expected for f in [*figures, *crowded, *aged])
    return [
        Figure(
            "P6 crowds",
            {**cost},
            expected=expected,
            completed=done,
            late=each > MOST_BYTES,
        )
    ]


def living(bed: Bed, share: float, among: str) -> list[Figure]:
    flow = bed.workflow("calls", *(factories.call(f"s{n}", "tick") for n in range(10)))
    runs = max(2, int(200 * share))
    found = [
        throughput.calls_by(bed, flow, runs, workers=1),
        *latency.starts(bed, share),
    ]
    for figure in found:
        figure.notes.append(among)
    return found


def ratios(empty: list[Figure], full: list[Figure], word: str) -> dict[str, float]:
    """Return what each compared value is, as a share of the empty database's."""
    return {
        f"{figure.id.split()[0]} {word}/empty": round(
            float(now.values[COMPARED[now.id]])
            / float(figure.values[COMPARED[figure.id]]),
            3,
        )
        for figure, now in zip(empty, full, strict=True)
    }


def park(bed: Bed, count: int) -> None:
    steps = {"asleep": factories.sleep("rest", 864_000), "asks": factories.gate("ask")}
    for slug, step in steps.items():
        run = go_on(Run.objects.get(pk=bed.spawn(bed.workflow(slug, step))))
        scale.multiply(run, count // len(steps))
    scale.settle_down()


def remember(bed: Bed, count: int) -> None:
    flow = bed.workflow("past", factories.gate("ask"))
    run = go_on(Run.objects.get(pk=bed.spawn(flow)))
    gate = drive.open_gate(run)
    gates.decide(gate.pk, person=bed.person, answer="approve", door="page")
    scale.multiply(go_on(run), count)
    scale.settle_down()


def size() -> int:
    """Return the bytes of all tables and indexes, after the dead rows have gone."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM")
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])
