from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from threads.ids import new_id
from threads.models import House
from workflows.models.recipes import Plan, Workflow


class RunQuerySet(models.QuerySet["Run"]):
    def active(self) -> RunQuerySet:
        return self.filter(state__in=Run.ACTIVE)


class Run(models.Model):
    """One execution of a workflow: the row is the truth and the claim.

    pending → running → (waiting | sleeping → pending) → completed | failed | cancelled.
    """

    class State(models.TextChoices):
        PENDING = "pending"  # → running, cancelled
        RUNNING = "running"  # → pending (released, reclaimed), parked, settled
        SLEEPING = "sleeping"  # → pending, cancelled
        WAITING = "waiting"  # → pending, cancelled
        COMPLETED = "completed"
        FAILED = "failed"
        CANCELLED = "cancelled"

    class Trigger(models.TextChoices):
        MANUAL = "manual"
        API = "api"
        SCHEDULE = "schedule"
        WEBHOOK = "webhook"
        EVENT = "event"
        MENTION = "mention"
        RETRY = "retry"
        RUN = "run"

    # Why a pending run without a ready time is held back.
    PAUSED, NO_SEAT = "paused", "seat"
    ACTIVE = (State.PENDING, State.RUNNING, State.SLEEPING, State.WAITING)
    SETTLED = (State.COMPLETED, State.FAILED, State.CANCELLED)

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    house = models.ForeignKey(House, models.PROTECT, related_name="+", db_index=False)
    namespace = models.CharField(max_length=64)
    workflow = models.ForeignKey(
        Workflow, models.PROTECT, related_name="runs", db_index=False
    )
    plan = models.ForeignKey(Plan, models.PROTECT, related_name="+", db_index=False)
    state = models.CharField(max_length=9, choices=State, default=State.PENDING)
    payload = models.JSONField(default=dict)
    trigger = models.CharField(max_length=8, choices=Trigger, default=Trigger.MANUAL)
    key = models.CharField(max_length=200, default="")
    position = models.IntegerField(default=0)
    iteration = models.IntegerField(default=1)
    attempts = models.IntegerField(default=0)
    crashes = models.IntegerField(default=0)
    max_attempts = models.IntegerField(default=5)
    holder = models.BigIntegerField(null=True)
    held_until = models.DateTimeField(null=True)
    ready_at = models.DateTimeField(null=True, db_default=Now())
    pool = models.CharField(max_length=32, default="steps")
    needs = models.CharField(max_length=64, default="")
    root = models.CharField(max_length=64, default="")
    due_at = models.DateTimeField(null=True)
    cancel_asked_at = models.DateTimeField(null=True)
    cancel_words = models.CharField(max_length=500, default="")
    deadline = models.FloatField(null=True)  # seconds from its start
    # A run past its deadline is stopped as a cancelled one is, and ends failed.
    deadline_at = models.DateTimeField(null=True)
    overdue = models.BooleanField(default=False)
    # A trigger keeps a paused run from being ready, whoever makes it pending.
    paused_at = models.DateTimeField(null=True)
    paused_words = models.CharField(max_length=500, default="")
    # Another run waits for the end of this one; the settling write then wakes it.
    awaited = models.BooleanField(default=False)
    deferred = models.CharField(max_length=200, default="")
    failure = models.JSONField(null=True)
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    # A run outlives the ones it came from.
    retry_of = models.ForeignKey(
        "self",
        models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    parent = models.ForeignKey(
        "self",
        models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    holder__isnull=True,
                    due_at__isnull=True,
                    finished_at__isnull=False,
                )
                | Q(state__in=["pending", "running", "sleeping", "waiting"]),
                name="run_settled_holds_nothing",
            ),
            models.CheckConstraint(
                condition=Q(holder__isnull=False) | ~Q(state="running"),
                name="run_running_has_holder",
            ),
            models.CheckConstraint(
                condition=Q(due_at__isnull=False) | ~Q(state="sleeping"),
                name="run_asleep_will_wake",
            ),
            models.CheckConstraint(
                condition=Q(failure__isnull=False) | ~Q(state="failed"),
                name="run_failed_says_why",
            ),
        ]
        indexes = [
            # For claims.claim() and the conductor's top-up: the oldest ready run of
            # the next house.
            models.Index(
                fields=["namespace", "pool", "house", "ready_at"],
                name="run_ready",
                condition=Q(state="pending"),
            ),
            # For liveness and fair claims: who holds what.
            models.Index(
                fields=["holder"],
                name="run_held",
                condition=Q(state="running"),
            ),
            # For the conductor: who is due to wake.
            models.Index(
                fields=["namespace", "due_at"],
                name="run_due",
                condition=Q(due_at__isnull=False),
            ),
            # For seats.waiting_runs() and a resume: who is held back, longest first.
            models.Index(
                fields=["workflow", "created_at"],
                name="run_held_back",
                condition=Q(state="pending", ready_at__isnull=True),
            ),
            # For the run list: newest first, in a house, of a workflow, failed.
            models.Index(
                fields=["house", "-created_at"],
                name="run_by_house",
            ),
            models.Index(
                fields=["workflow", "-created_at"],
                name="run_by_workflow",
            ),
            models.Index(
                fields=["house", "-created_at"],
                name="run_failed",
                condition=Q(state="failed"),
            ),
            # For the conductor: who has outlived its deadline.
            models.Index(
                fields=["namespace", "deadline_at"],
                name="run_deadline",
                condition=Q(deadline_at__isnull=False),
            ),
            # For a run's page and document: the runs its steps have started.
            models.Index(
                fields=["parent"],
                name="run_children",
                condition=Q(parent__isnull=False),
            ),
            # For selectors.retries(): what was started to retry a run.
            models.Index(
                fields=["retry_of"],
                name="run_retries",
                condition=Q(retry_of__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)


class RunKey(models.Model):
    """Which run a repeated start gets; outlives the run."""

    workflow = models.ForeignKey(
        Workflow, models.PROTECT, related_name="+", db_index=False
    )
    key = models.CharField(max_length=200)
    run = models.ForeignKey(
        Run, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workflow", "key"], name="run_key_once"),
        ]

    def __str__(self) -> str:
        return self.key


class Seat(models.Model):
    """Who may be active; deleted by the write that settles the run."""

    house = models.ForeignKey(House, models.PROTECT, related_name="+", db_index=False)
    name = models.CharField(max_length=200)
    number = models.IntegerField(default=1)
    run = models.ForeignKey(Run, models.PROTECT, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["house", "name", "number"], name="seat_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.number}"
