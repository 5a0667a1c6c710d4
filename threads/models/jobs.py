from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from threads.ids import new_id
from threads.models.houses import House


class Job(models.Model):
    """A short piece of work, fired and forgotten.

    pending → running → succeeded | dead; a dead one is sent again as a new job.
    """

    class State(models.TextChoices):
        PENDING = "pending"  # → running, dead (withdrawn)
        RUNNING = "running"  # → pending (a fault, a dead worker), succeeded, dead
        SUCCEEDED = "succeeded"
        DEAD = "dead"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    house = models.ForeignKey(
        House, models.PROTECT, null=True, related_name="+", db_index=False
    )
    namespace = models.CharField(max_length=64)
    type = models.CharField(max_length=100)
    payload = models.JSONField()
    state = models.CharField(max_length=9, choices=State, default=State.PENDING)
    attempts = models.IntegerField(default=0)
    holder = models.BigIntegerField(null=True)
    held_until = models.DateTimeField(null=True)
    ready_at = models.DateTimeField(db_default=Now())
    last_error = models.TextField(default="")
    dedupe_key = models.CharField(max_length=200, default="")
    enqueued_at = models.DateTimeField(db_default=Now(), editable=False)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-enqueued_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["namespace", "dedupe_key"],
                condition=Q(state__in=["pending", "running"]) & ~Q(dedupe_key=""),
                name="job_open_once",
            ),
            models.CheckConstraint(
                condition=Q(holder__isnull=True) | ~Q(state__in=["succeeded", "dead"]),
                name="job_settled_holds_nothing",
            ),
        ]
        indexes = [
            # For runtime.jobs.claim() and the conductor's top-up: what is ready.
            models.Index(
                fields=["namespace", "ready_at"],
                name="job_ready",
                condition=Q(state="pending"),
            ),
            # For liveness: what a dead worker held.
            models.Index(
                fields=["holder"],
                name="job_held",
                condition=Q(state="running"),
            ),
            # For the list of dead jobs.
            models.Index(
                fields=["namespace", "-ended_at"],
                name="job_dead",
                condition=Q(state="dead"),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.id}"
