from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from threads.models.houses import House


class TriggerMode(models.TextChoices):
    MENTION = "mention"
    AMBIENT = "ambient"
    ALWAYS = "always"


class Bot(models.Model):
    """Who answers in a thread; its runtime says how."""

    house = models.ForeignKey(House, models.PROTECT, related_name="bots")
    handle = models.SlugField(max_length=64)
    name = models.CharField(max_length=200)
    runtime = models.CharField(max_length=64, default="scripted")
    model = models.CharField(max_length=200, blank=True)
    instructions = models.TextField(blank=True)
    tools = models.JSONField(default=list, blank=True)
    trigger_mode = models.CharField(
        max_length=10, choices=TriggerMode, default=TriggerMode.MENTION
    )
    single = models.BooleanField(default=False, help_text="Answers one room at a time.")
    limits = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["house", "handle"]
        constraints = [
            models.UniqueConstraint(fields=["house", "handle"], name="bot_once"),
        ]

    def __str__(self) -> str:
        return self.name
