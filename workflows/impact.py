"""What is in flight that this code could not finish: asked before it replaces another.

Steps are data, so that a plan says for every position what is still to come.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Count

from threads import db, runtimes
from threads.envelopes import registry
from threads.models import Bot, House, Job
from workflows import plan, selectors
from workflows.models import Workflow

SHOWN = 20  # runs named for each group, the newest; all of them are counted

# One pass over what is active: runs of one plan at one position with one bot need the
# same, whatever their number. What an open turn needs was fixed when it was asked for.
GROUPS = """
SELECT r.workflow_id, r.plan_id, r.position, w.worker_bot_id, COALESCE(t.needs, ''),
       r.state, count(*), (array_agg(r.id ORDER BY r.id DESC))[1:%(shown)s]
  FROM workflows_run r JOIN workflows_runthread w ON w.run_id = r.id
  LEFT JOIN threads_turn t ON t.id = w.await_turn_id AND w.awaiting
   AND t.state IN ('pending', 'running', 'waiting')
 WHERE r.state IN ('pending', 'running', 'sleeping', 'waiting')
   AND r.namespace = %(namespace)s AND r.house_id = ANY(%(houses)s)
 GROUP BY 1, 2, 3, 4, 5, 6
"""


@dataclass(frozen=True)
class Need:
    """Something a step asks for: a step kind, a function to call, a bot's runtime."""

    what: str
    name: str

    def known(self) -> bool:
        match self.what:
            case "kind":
                return self.name in plan.KINDS
            case "function":
                return self.name in settings.CALLS
            case _:
                return self.name in runtimes.NAMES


@dataclass
class Lack:
    """The runs of one workflow that lack the same."""

    need: Need
    count: int = 0
    states: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    runs: list[tuple[UUID, str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Bots:
    """The runtimes of the houses' bots, read once."""

    by_id: Mapping[int, tuple[int, str]]
    by_handle: Mapping[tuple[int, str], str]

    def runtime(self, bot: int, handle: str | None) -> str:
        house, own = self.by_id[bot]
        return self.by_handle.get((house, handle), own) if handle else own


def report(houses: Iterable[House]) -> dict[str, Any]:
    """Return what in flight, and which recipes, need something this code lacks."""
    ids = [house.pk for house in houses]
    bots = read_bots()
    lacks = lacking_runs(ids, bots)
    return {
        "runs": [line for lack in lacks.items() for line in lines(*lack)],
        "workflows": list(lacking_workflows(ids, bots)),
        "jobs": list(lacking_jobs()),
    }


def read_bots() -> Bots:
    rows = list(Bot.objects.values_list("pk", "house_id", "handle", "runtime"))
    return Bots(
        {pk: (house, runtime) for pk, house, _, runtime in rows},
        {(house, handle): runtime for _, house, handle, runtime in rows},
    )


def lacking_runs(houses: list[int], bots: Bots) -> dict[UUID, dict[Need, Lack]]:
    found: dict[UUID, dict[Need, Lack]] = {}
    facts = {"namespace": settings.NAMESPACE, "houses": houses, "shown": SHOWN}
    for workflow, plan_id, position, bot, asked, state, count, ids in db.fetch(
        GROUPS, facts
    ):
        # The step that waits for a turn is what the turn needs.
        ahead = selectors.plan_steps(plan_id)[position + bool(asked) :]
        needs = set(needs_of(ahead, bot, bots))
        needs |= {Need("runtime", asked)} if asked else set()
        for need in missing(needs):
            lack = found.setdefault(workflow, {}).setdefault(need, Lack(need))
            lack.count += count
            lack.states[state] += count
            name = step_name(plan_id, position)
            lack.runs += [(run, state, name) for run in ids]
    return found


def step_name(plan_id: int, position: int) -> str:
    steps = selectors.plan_steps(plan_id)
    return str(steps[position].get("name", "")) if position < len(steps) else ""


def needs_of(
    steps: Iterable[Mapping[str, Any]], bot: int, bots: Bots
) -> Iterator[Need]:
    for step in steps:
        yield Need("kind", str(step.get("kind")))
        match step:
            case {"kind": "call", "function": function}:
                yield Need("function", str(function))
            case {"kind": "dispatch_task"}:
                yield Need("runtime", bots.runtime(bot, step.get("bot")))
            case _:
                pass


def missing(needs: Iterable[Need]) -> list[Need]:
    lacking = (need for need in needs if not need.known())
    return sorted(lacking, key=lambda need: (need.what, need.name))


def lines(workflow: UUID, lacks: Mapping[Need, Lack]) -> Iterator[dict[str, Any]]:
    flow = Workflow.objects.select_related("house").get(pk=workflow)
    for need in missing(lacks):
        lack = lacks[need]
        newest = sorted(lack.runs, reverse=True)[:SHOWN]
        yield {
            "workflow": flow.slug,
            "house": flow.house.slug,
            "what": need.what,
            "name": need.name,
            "count": lack.count,
            "states": dict(sorted(lack.states.items())),
            "runs": [
                {"id": str(run), "state": state, "step": step}
                for run, state, step in newest
            ],
        }


def lacking_workflows(houses: list[int], bots: Bots) -> Iterator[dict[str, Any]]:
    flows = Workflow.objects.current().filter(house__in=houses)
    for flow in flows.select_related("house").order_by("house__slug", "slug"):
        steps = selectors.plan_steps(flow.plan_id)
        for need in missing(set(needs_of(steps, flow.bot_id, bots))):
            yield {
                "workflow": flow.slug,
                "house": flow.house.slug,
                "what": need.what,
                "name": need.name,
                "steps": [
                    str(step.get("name", ""))
                    for step in steps
                    if need in needs_of([step], flow.bot_id, bots)
                ],
            }


def lacking_jobs() -> Iterator[dict[str, Any]]:
    """Yield the open jobs whose type this code does not know."""
    open_ones = Job.objects.filter(
        namespace=settings.NAMESPACE, state__in=[Job.State.PENDING, Job.State.RUNNING]
    ).exclude(type__in=registry)
    for row in open_ones.values("type").annotate(count=Count("pk")).order_by("type"):
        yield {"type": row["type"], "count": row["count"]}
