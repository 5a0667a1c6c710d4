from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from threads.ids import new_id
from threads.models import Bot, House


class Plan(models.Model):
    """The steps a run was born with: immutable, shared by all runs with the same."""

    hash = models.CharField(max_length=64, unique=True)
    steps = models.JSONField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return self.hash[:12]


class WorkflowQuerySet(models.QuerySet["Workflow"]):
    def current(self) -> WorkflowQuerySet:
        return self.filter(deleted_at=None)


class Workflow(models.Model):
    """A recipe: what to do, in which order, and when to begin."""

    class Overlap(models.TextChoices):
        JOIN = "join"
        WAIT = "wait"
        REPLACE = "replace"
        ALLOW = "allow"

    class Missed(models.TextChoices):
        RUN_ONCE = "run_once", "run once"
        SKIP = "skip"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    house = models.ForeignKey(House, models.PROTECT, related_name="+", db_index=False)
    slug = models.SlugField(max_length=64)
    name = models.CharField(max_length=200)
    bot = models.ForeignKey(Bot, models.PROTECT, related_name="+")
    steps = models.JSONField()
    plan = models.ForeignKey(Plan, models.PROTECT, related_name="+", db_index=False)
    schedule = models.CharField(max_length=200, blank=True, default="")
    timezone = models.CharField(max_length=64, default="UTC")
    missed = models.CharField(max_length=8, choices=Missed, default=Missed.RUN_ONCE)
    overlap = models.CharField(
        max_length=7,
        choices=Overlap,
        blank=True,
        default="",
        help_text="Empty: join for scheduled starts, allow for every other.",
    )
    limit = models.IntegerField(null=True, blank=True)
    max_attempts = models.IntegerField(default=5)
    deadline = models.FloatField(
        null=True, blank=True, help_text="Seconds that a run may take from its start."
    )
    notify = models.JSONField(default=list, blank=True)
    paused = models.BooleanField(default=False)
    paused_reason = models.CharField(max_length=200, blank=True, default="")
    revision = models.IntegerField(default=1)
    next_slot_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = WorkflowQuerySet.as_manager()

    class Meta:
        ordering = ["house", "slug"]
        constraints = [
            models.UniqueConstraint(
                fields=["house", "slug"],
                condition=Q(deleted_at__isnull=True),
                name="workflow_once",
            ),
            models.CheckConstraint(
                condition=Q(next_slot_at__isnull=True) | Q(deleted_at__isnull=True),
                name="workflow_deleted_never_fires",
            ),
        ]
        indexes = [
            # For the conductor and the sweep: schedules that are due.
            models.Index(
                fields=["next_slot_at"],
                name="workflow_due",
                condition=Q(next_slot_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Slot(models.Model):
    """The ledger: what became of each time a schedule named."""

    class Outcome(models.TextChoices):
        FIRED = "fired"
        LATE = "late"
        SKIPPED = "skipped"

    workflow = models.ForeignKey(
        Workflow, models.PROTECT, related_name="slots", db_index=False
    )
    slot_at = models.DateTimeField()
    outcome = models.CharField(max_length=7, choices=Outcome)
    reason = models.CharField(max_length=200, default="")
    count = models.IntegerField(default=1)
    # A ledger line outlives a pruned run.
    run = models.ForeignKey(
        "workflows.Run",
        models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["workflow", "-slot_at"]
        constraints = [
            # A16: one run a slot, whoever fires it. Also the ledger's own index.
            models.UniqueConstraint(fields=["workflow", "slot_at"], name="slot_once"),
        ]

    def __str__(self) -> str:
        return f"{self.slot_at:%Y-%m-%d %H:%M} {self.outcome}"
