"""Who may be active at once: seats taken by a start, handed over by the settling write."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models.functions import Now

from threads import points, post
from workflows.models import Run, Seat, Workflow
from workflows.models.runs import RunQuerySet


@dataclass(frozen=True)
class Rule:
    """What a start does where every place is taken, and how many places there are."""

    overlap: str
    places: int


def rule(workflow: Workflow, asked: str = "") -> Rule | None:
    """Return the workflow's rule, or None where any number may be active.

    `asked` is what this kind of start does where the workflow says nothing.
    """
    overlap = workflow.overlap or asked or ("wait" if workflow.limit else "")
    if overlap in {"", Workflow.Overlap.ALLOW}:
        return None
    return Rule(overlap, workflow.limit or 1)


def name(workflow: UUID) -> str:
    return f"workflow:{workflow}"


def take(run: Run, *, places: int) -> list[UUID]:
    """Sit down on a free place; return who sits where, or nothing when seated."""
    holders = []
    for number in range(1, places + 1):
        mine = Seat(
            house_id=run.house_id, name=name(run.workflow_id), number=number, run=run
        )
        Seat.objects.bulk_create([mine], ignore_conflicts=True)
        kept = Seat.objects.filter(
            house=run.house_id, name=mine.name, number=number
        ).first()
        if kept is not None and kept.run_id == run.pk:
            return []
        holders.append(kept.run_id if kept else run.pk)
    return holders


def wait(run: Run, holders: list[UUID]) -> bool:
    """Hold a run back until a seat is handed over; False where one has come free.

    The holders' rows stay locked until the start commits, so that none of them settles
    without seeing who waits.
    """
    rows = Run.objects.select_for_update(of=("self",)).filter(pk__in=holders)
    active = [row for row in rows.order_by("pk") if row.state in Run.ACTIVE]
    if len(active) < len(holders):
        return False
    hold_back(run)
    return True


def hold_back(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(ready_at=None, deferred=Run.NO_SEAT)
    run.ready_at, run.deferred = None, Run.NO_SEAT


def hand_over(run: Run) -> None:
    """Give the seats of a run that settles to those who have waited longest."""
    for seat in Seat.objects.filter(run=run):
        seat.delete()
        workflow = Workflow.objects.get(pk=run.workflow_id)
        if seat.name == name(workflow.pk) and not workflow.paused:
            seat_next(workflow, seat.number)


def seat_next(workflow: Workflow, number: int) -> bool:
    """Seat the run that has waited longest on a free place; False where none waits."""
    # One that is being cancelled at this moment is stepped over.
    waiting = waiting_runs(workflow).select_for_update(skip_locked=True, of=("self",))
    run = waiting.order_by("created_at", "pk").first()
    if run is None:
        return False
    mine = Seat(
        house_id=workflow.house_id, name=name(workflow.pk), number=number, run=run
    )
    Seat.objects.bulk_create([mine], ignore_conflicts=True)
    if not Seat.objects.filter(name=mine.name, number=number, run=run).exists():
        return True  # a start sat down first
    Run.objects.filter(pk=run.pk).update(ready_at=Now(), deferred="")
    points.written("seat")
    post.post_ticket("workflows.advance", run.pool, run.pk, queue=run.pool)
    return True


def begin_seated(workflow: Workflow) -> None:
    """Let those begin who are held back although they sit: an edit came in between."""
    seated = waiting_runs(workflow).filter(pk__in=Seat.objects.values("run"))
    # By pk, as `wait` locks those who sit: in another order the two could deadlock.
    for run in seated.select_for_update(of=("self",)).order_by("pk"):
        Run.objects.filter(pk=run.pk).update(ready_at=Now(), deferred="")
        post.post_ticket("workflows.advance", run.pool, run.pk, queue=run.pool)


def lock_held_back(workflow: Workflow) -> None:
    """Lock all that a pause or a seat holds back, before some of them begin.

    By pk and at once, as `wait` locks those who sit.
    """
    held = Run.objects.filter(
        workflow=workflow,
        state=Run.State.PENDING,
        ready_at=None,
        deferred__in=(Run.PAUSED, Run.NO_SEAT),
    )
    rows = held.select_for_update(of=("self",)).order_by("pk")
    list(rows.values_list("pk"))


def waiting_runs(workflow: Workflow) -> RunQuerySet:
    return Run.objects.filter(
        workflow=workflow, state=Run.State.PENDING, ready_at=None, deferred=Run.NO_SEAT
    )


def fill(workflow: Workflow) -> None:
    """Seat whoever waits on places that are free; inside a transaction."""
    begin_seated(workflow)
    places = workflow.limit or 1
    taken = set(
        Seat.objects.filter(
            house=workflow.house_id, name=name(workflow.pk)
        ).values_list("number", flat=True)
    )
    for number in range(1, places + 1):
        if number not in taken and not seat_next(workflow, number):
            return
