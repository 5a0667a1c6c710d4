from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class Pulse(models.Model):
    """A process that works here; its id is what holds a run, a turn or a job.

    It keeps a session advisory lock on its id for as long as it lives.
    """

    namespace = models.CharField(max_length=64)
    role = models.CharField(max_length=32)
    name = models.CharField(max_length=200)
    host = models.CharField(max_length=200)
    process = models.IntegerField()
    version = models.CharField(max_length=64)
    kinds = models.JSONField(default=list)
    runtimes = models.JSONField(default=list)
    root = models.CharField(max_length=64, default="")
    locked = models.BooleanField(default=False)
    started_at = models.DateTimeField(db_default=Now(), editable=False)
    seen_at = models.DateTimeField(db_default=Now())
    dead_at = models.DateTimeField(null=True)
    # Since when the messenger has not answered it; readers never ask the messenger.
    unheard_since = models.DateTimeField(null=True)

    class Meta:
        ordering = ["role", "name"]
        constraints = [
            models.UniqueConstraint(fields=["role", "name"], name="pulse_once"),
        ]
        indexes = [
            # For liveness: who is thought to live.
            models.Index(
                fields=["namespace", "role"],
                name="pulse_alive",
                condition=Q(dead_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return self.name
