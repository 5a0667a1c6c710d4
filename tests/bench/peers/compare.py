"""Ours beside the peers, round by round on one server: P1, P2 and P3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from tests import factories
from tests.bench import latency, throughput
from tests.bench.bed import Bed, Figure, percentiles
from tests.bench.peers import rivals
from tests.bench.peers.rivals import NotHere, Rival

ROUNDS = 3
OURS = "Threadwork"
DURABLE = ("Absurd", "DBOS")


@dataclass
class Score:
    """What each contestant did at one figure, a value a round."""

    id: str
    unit: str
    values: dict[str, list[float]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def add(self, name: str, value: float) -> None:
        self.values.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        return median(self.values[name])

    def best(self, *families: str) -> float | None:
        """Return the best median of some peers: most of a rate, least of a time."""
        found = [self.median(name) for name in self.values if name.startswith(families)]
        if not found:
            return None
        return max(found) if self.unit == "steps/s" else min(found)


def compare(bed: Bed, share: float, ids: Sequence[str]) -> list[Figure]:
    """Play all rounds of the figures named and hold ours against the targets."""
    try:
        peers = rivals.contestants(bed)
    except NotHere as error:
        return [Figure("Peers", {}, notes=[f"left out: {error}"])]
    scores: dict[str, Score] = {}
    for number in range(ROUNDS):
        for peer in [None, *peers]:
            parts = ours(bed, share) if peer is None else theirs(bed, peer, share)
            wanted = [part for part in parts if part[0][:2] in ids]
            play(peer, wanted, scores, first=number == 0)
    return [figure(score) for score in scores.values()]


def play(
    peer: Rival | None, parts: Parts, scores: dict[str, Score], *, first: bool
) -> None:
    """Play one round of one contestant; one that fails is said and left out."""
    for key, unit, measure in parts:
        score = scores.setdefault(key, Score(key, unit))
        name = peer.name if peer else OURS
        try:
            score.add(name, measure())
        except NotHere as error:
            if first:
                score.wrong.append(f"{name} is left out: {error}")
        finally:
            if peer is not None:
                peer.down()


Parts = list[tuple[str, str, Callable[[], float]]]


def ours(bed: Bed, share: float) -> Parts:
    flow = bed.workflow("calls", *(factories.call(f"s{n}", "tick") for n in range(10)))
    runs = max(2, int(200 * share))

    def rate(workers: int) -> float:
        found = throughput.calls_by(bed, flow, runs, workers=workers)
        return float(once(found).values["steps/s"])

    def soon(measure: Callable[[Bed, float], list[Figure]]) -> float:
        (found,) = measure(bed, share / 2)
        return float(once(found).values["p50 ms"])

    return [
        ("P1, 1 process", "steps/s", partial(rate, 1)),
        ("P1, 2 processes", "steps/s", partial(rate, 2)),
        ("P2 start", "p50 ms", partial(soon, latency.starts)),
        ("P3 event", "p50 ms", partial(soon, latency.happenings)),
    ]


def once(found: Figure) -> Figure:
    if not found.holds():
        raise NotHere(f"{found.id}: {found.repeated} steps ran again or not at all")
    return found


def theirs(bed: Bed, peer: Rival, share: float) -> Parts:
    runs, samples = max(2, int(200 * share)), max(5, int(50 * share))
    parts: Parts = [
        ("P1, 1 process", "steps/s", partial(rate, peer, runs, 1)),
        ("P1, 2 processes", "steps/s", partial(rate, peer, runs, 2)),
    ]
    if peer.name in {"Absurd, 8 at once", "DBOS, no limit", "Celery, not durable"}:
        soon = partial(start, bed, peer, samples)
        parts.append(("P2 start", "p50 ms", soon))
    if peer.name in {"Absurd, 8 at once", "DBOS, no limit"}:
        parts.append(("P3 event", "p50 ms", partial(wake, bed, peer, samples)))
    return parts


def begin(peer: Rival) -> None:
    if peer.script == "absurd_worker":
        peer.order(fresh=True)
    elif peer.script == "dbos_worker":
        peer.work(1)  # its first launch lays out the tables
        peer.down()


def rate(peer: Rival, runs: int, workers: int) -> float:
    begin(peer)
    for number in range(runs):
        peer.order(
            spawn="steps", name=f"{peer.witness.path.stat().st_mtime_ns}-{number}"
        )
    peer.work(workers)
    wanted = runs * throughput.STEPS
    done = lambda: [line for line in peer.lines() if line.name != "up"]  # noqa: E731
    peer.wait(lambda: len(done()) >= wanted, 180, "did not finish")
    lines = done()
    if most := [name for name, n in Counter(x.name for x in lines).items() if n > 1]:
        raise NotHere(f"{peer.name} ran {most[0]} again")
    return throughput.per_second(len(lines), [line.at for line in lines])


def start(bed: Bed, peer: Rival, samples: int) -> float:
    begin(peer)
    peer.work(1)
    return soon(bed, peer, samples, lambda name: peer.order(spawn="mark", name=name))


def wake(bed: Bed, peer: Rival, samples: int) -> float:
    begin(peer)
    salt = peer.witness.path.stat().st_mtime_ns
    names = iter([f"w{salt}-{n}" for n in range(samples + 1)])
    waiting = [f"w{salt}-{n}" for n in range(samples + 1)]
    for name in waiting:
        peer.order(spawn="wait", name=name)
    peer.work(1)
    parked = lambda: sum(x.name.startswith("parked:") for x in peer.lines())  # noqa: E731
    peer.wait(lambda: parked() >= len(waiting), 60, "did not park")

    def act(name: str) -> int:
        return peer.order(wake=name)

    return soon(bed, peer, samples, act, names=list(names))


def soon(
    bed: Bed,
    peer: Rival,
    samples: int,
    act: Callable[[str], int],
    names: list[str] | None = None,
) -> float:
    """Return the median until the step's code runs, in milliseconds; the first warms."""
    salt = peer.witness.path.stat().st_mtime_ns
    took = []
    for number, name in enumerate(
        names or [f"m{salt}-{n}" for n in range(samples + 1)]
    ):
        bed.breathe(0.05, 0.55)
        began = act(name)
        peer.wait(lambda: peer.lines(name), 30, f"never ran {name}")  # noqa: B023
        if number:
            took.append((peer.lines(name)[0].at - began) / 1e9)
    return percentiles(took, 50)["p50 ms"]


def figure(score: Score) -> Figure:
    """Return medians, and whether the target of this figure is met."""
    values: dict[str, float | str] = {
        name: round(score.median(name), 1) for name in score.values
    }
    notes = list(score.wrong)
    if OURS in score.values:
        notes += [f"{words}: {said(met)}" for words, met in targets(score)]
    return Figure(f"{score.id} ({score.unit})", values, notes=notes)


def said(met: bool | None) -> str:  # noqa: FBT001  the verdict itself
    return "not compared" if met is None else "met" if met else "MISSED"


def targets(score: Score) -> list[tuple[str, bool | None]]:
    mine = score.median(OURS)
    absurd, dbos = score.best("Absurd"), score.best("DBOS")
    celery, durable = score.best("Celery"), score.best(*DURABLE)

    def least(words: str, other: float | None, times: float) -> tuple[str, bool | None]:
        ratio = f" ({mine / other:.2f})" if other else ""
        return f"{words}{ratio}", other and mine >= times * other  # type: ignore[return-value]

    def most(words: str, other: float | None, times: float) -> tuple[str, bool | None]:
        ratio = f" ({mine / other:.2f})" if other else ""
        return f"{words}{ratio}", other and mine <= times * other  # type: ignore[return-value]

    if score.id.startswith("P1"):
        return [
            least("at least 1.25 x Absurd's best", absurd, 1.25),
            least("at least 3 x DBOS's best", dbos, 3.0),
        ]
    if score.id.startswith("P2"):
        return [
            most("at most 3 x plain Celery", celery, 3.0),
            most("at most half of the best durable peer", durable, 0.5),
        ]
    return [
        most("no worse than DBOS, which holds a thread", dbos, 1.0),
        most("at most a third of Absurd", absurd, 1 / 3),
    ]
