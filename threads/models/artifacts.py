from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from threads.ids import new_id
from threads.models.houses import House


class Artifact(models.Model):
    """A file that a piece of work left and the house keeps; its bytes lie on disk."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    house = models.ForeignKey(
        House, models.PROTECT, related_name="artifacts", db_index=False
    )
    origin = models.UUIDField()  # whose work it comes from: a run, or a thread
    subject = models.CharField(max_length=200)  # the execution that left it
    step = models.CharField(max_length=64)
    name = models.CharField(max_length=500)  # its path where it was found
    size = models.BigIntegerField()
    digest = models.CharField(max_length=64)  # SHA-256, and the name of its file
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["origin", "created_at", "name"]
        constraints = [
            # Also the reader's index: the files of a run. A second try of the same
            # execution leaves its file in the place of the first one's.
            models.UniqueConstraint(
                fields=["origin", "subject", "name"], name="artifact_once"
            ),
            models.CheckConstraint(condition=Q(size__gte=0), name="artifact_size"),
        ]

    def __str__(self) -> str:
        return self.name
