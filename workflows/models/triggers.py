from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from threads.models import House


class Event(models.Model):
    """Something that happened; with a key, only the first one counts."""

    house = models.ForeignKey(House, models.PROTECT, related_name="+", db_index=False)
    name = models.CharField(max_length=200)
    key = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001
    payload = models.JSONField(default=dict)
    emitted_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-emitted_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["house", "name", "key"],
                condition=Q(key__isnull=False),
                name="event_first_write_wins",
            ),
        ]
        indexes = [
            # For events.found(): what was emitted by this name after a moment.
            models.Index(fields=["house", "name", "id"], name="event_by_name"),
            # For a run's page: the events of its steps (their key is the run's id).
            models.Index(
                fields=["key"],
                name="event_by_key",
                condition=Q(key__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.name
