from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from threads.ids import new_id
from threads.models.houses import House
from threads.models.threads import Thread
from threads.models.turns import Turn


class Gate(models.Model):
    """A question that waits for people; `subject` names what it holds up."""

    class Kind(models.TextChoices):
        APPROVE = "approve"
        REPLY = "reply"
        ACKNOWLEDGE = "acknowledge"
        CHOOSE = "choose"
        FORM = "form"

    class State(models.TextChoices):
        OPEN = "open"  # → closed
        CLOSED = "closed"

    class Outcome(models.TextChoices):
        APPROVED = "approved"
        REJECTED = "rejected"
        REPLIED = "replied"
        ACKNOWLEDGED = "acknowledged"
        EXPIRED = "expired"
        SKIPPED = "skipped"
        WITHDRAWN = "withdrawn"

    class OnDeadline(models.TextChoices):
        FAIL = "fail"
        APPROVE = "approve"
        REJECT = "reject"
        SKIP = "skip"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    house = models.ForeignKey(House, models.PROTECT, related_name="+", db_index=False)
    namespace = models.CharField(max_length=64)
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="gates")
    turn = models.ForeignKey(
        Turn, models.PROTECT, null=True, related_name="gates", db_index=False
    )
    subject = models.CharField(max_length=200)
    title = models.CharField(max_length=200)
    iteration = models.IntegerField(default=1)
    kind = models.CharField(max_length=11, choices=Kind)
    prompt = models.TextField()
    who = models.JSONField(default=list)
    approvals = models.IntegerField(default=1)
    choices = models.JSONField(default=list)
    form = models.JSONField(null=True)
    not_starter = models.BooleanField(default=False)
    starter = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    state = models.CharField(max_length=6, choices=State, default=State.OPEN)
    due_at = models.DateTimeField(null=True)
    on_deadline = models.CharField(
        max_length=7, choices=OnDeadline, default=OnDeadline.FAIL
    )
    outcome = models.CharField(max_length=12, choices=Outcome, default="", blank=True)
    reply = models.TextField(default="")
    answer = models.JSONField(null=True)
    closed_by = models.CharField(max_length=200, default="")
    opened_number = models.IntegerField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(fields=["subject", "iteration"], name="gate_once"),
            models.CheckConstraint(
                condition=Q(state="open", outcome="", closed_at__isnull=True)
                | Q(state="closed", closed_at__isnull=False, due_at__isnull=True)
                & ~Q(outcome=""),
                name="gate_open_or_decided",
            ),
            models.CheckConstraint(
                condition=Q(approvals__gte=1), name="gate_needs_someone"
            ),
        ]
        indexes = [
            # For the inbox: what a house waits for.
            models.Index(
                fields=["house", "created_at"],
                name="gate_open",
                condition=Q(state="open"),
            ),
            # For the conductor: gates past their deadline.
            models.Index(
                fields=["namespace", "due_at"],
                name="gate_due",
                condition=Q(due_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def of_bot(self) -> bool:
        """Whether a bot asks in the middle of its turn, and goes on with any answer."""
        return self.subject.startswith("ask:")


class GateAnswer(models.Model):
    """What one person said to a gate, through which door."""

    gate = models.ForeignKey(
        Gate, models.PROTECT, related_name="answers", db_index=False
    )
    iteration = models.IntegerField(default=1)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    name = models.CharField(max_length=200)
    answer = models.CharField(max_length=200)
    comment = models.TextField(default="")
    door = models.CharField(max_length=20)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["gate", "created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["gate", "iteration", "person"], name="answer_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.answer}"
