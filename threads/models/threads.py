from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from threads.ids import new_id
from threads.models.bots import Bot, TriggerMode
from threads.models.houses import House


class Thread(models.Model):
    """A conversation; each run has one of its own.

    The row is the lock of everything that happens in it: a transaction that touches
    more than one of run, wait, step, turn, gate and entry updates `last_number` first.
    """

    class Kind(models.TextChoices):
        ROOM = "room"
        RUN = "run"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    house = models.ForeignKey(House, models.PROTECT, related_name="threads")
    title = models.CharField(max_length=200)
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.ROOM)
    bot = models.ForeignKey(
        Bot, models.PROTECT, null=True, blank=True, related_name="threads"
    )
    trigger_mode = models.CharField(
        max_length=10, choices=TriggerMode, default=TriggerMode.MENTION
    )
    parent = models.ForeignKey(
        "self", models.PROTECT, null=True, blank=True, related_name="children"
    )
    root = models.ForeignKey(
        "self", models.PROTECT, null=True, blank=True, related_name="descendants"
    )
    last_number = models.IntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            # A31: a run's thread has exactly one bot, and that bot always replies.
            models.CheckConstraint(
                condition=~Q(kind="run") | Q(bot__isnull=False, trigger_mode="always"),
                name="run_thread_has_its_bot",
            ),
            models.CheckConstraint(
                condition=Q(last_number__gte=0), name="thread_numbers_from_zero"
            ),
        ]
        indexes = [
            # For the thread list: newest first within a house.
            models.Index(
                fields=["house", "-created_at"],
                name="thread_by_house",
            ),
        ]

    def __str__(self) -> str:
        return self.title


class Entry(models.Model):
    """A line in a thread, written once and never changed."""

    class Kind(models.TextChoices):
        NOTE = "note"
        INSTRUCTION = "instruction"
        MESSAGE = "message"
        SIGNAL = "signal"
        ANSWER = "answer"

    class Author(models.TextChoices):
        SYSTEM = "system"
        BOT = "bot"
        PERSON = "person"

    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="entries", db_index=False
    )
    number = models.IntegerField()
    author_kind = models.CharField(max_length=6, choices=Author)
    author_name = models.CharField(max_length=200)
    # An entry outlives its author's account and keeps the name it was written under.
    bot = models.ForeignKey(
        Bot,
        models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    kind = models.CharField(max_length=11, choices=Kind)
    body = models.TextField()
    data = models.JSONField(null=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["thread", "number"]
        verbose_name_plural = "entries"
        constraints = [
            # Also the reader's index: a thread's entries in order, from any number.
            models.UniqueConstraint(fields=["thread", "number"], name="entry_once"),
        ]

    def __str__(self) -> str:
        return f"{self.number}. {self.author_name}: {self.body[:60]}"
