from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from threads.ids import new_id
from threads.models.bots import Bot
from threads.models.houses import House
from threads.models.threads import Thread


class TurnQuerySet(models.QuerySet["Turn"]):
    def active(self) -> TurnQuerySet:
        return self.filter(state__in=Turn.ACTIVE)

    def held(self, holder: int | None, attempts: int) -> TurnQuerySet:
        """Return the turn only while this holder's attempt still owns it."""
        return self.filter(state=Turn.State.RUNNING, holder=holder, attempts=attempts)


class Turn(models.Model):
    """One piece of a bot's work: the row is the work and the claim on it.

    pending → running → (waiting → pending) → succeeded | failed | cancelled.
    """

    class What(models.TextChoices):
        COMMAND = "command"
        PROMPT = "prompt"

    class State(models.TextChoices):
        PENDING = "pending"  # → running, cancelled
        RUNNING = "running"  # → pending (released, reclaimed), waiting, settled
        WAITING = "waiting"  # → pending, cancelled, failed
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        CANCELLED = "cancelled"

    ACTIVE = (State.PENDING, State.RUNNING, State.WAITING)

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    house = models.ForeignKey(House, models.PROTECT, related_name="+", db_index=False)
    namespace = models.CharField(max_length=64)
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="turns", db_index=False
    )
    bot = models.ForeignKey(Bot, models.PROTECT, related_name="turns", db_index=False)
    what = models.CharField(max_length=8, choices=What)
    instruction = models.TextField()
    spec = models.JSONField(default=dict)
    state = models.CharField(max_length=10, choices=State, default=State.PENDING)
    attempts = models.IntegerField(default=0)
    crashes = models.IntegerField(default=0)
    faults = models.IntegerField(default=0)
    holder = models.BigIntegerField(null=True)
    held_until = models.DateTimeField(null=True)
    ready_at = models.DateTimeField(null=True, db_default=Now())
    pool = models.CharField(max_length=32, default="turns")
    needs = models.CharField(max_length=64, default="")
    root = models.CharField(max_length=64, default="")
    due_at = models.DateTimeField(null=True)
    cancel_asked_at = models.DateTimeField(null=True)
    key = models.CharField(max_length=200)
    subject = models.CharField(max_length=200, default="")
    slot = models.BigIntegerField(null=True)
    result = models.JSONField(null=True)
    reason = models.TextField(default="")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    began_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    objects = TurnQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["thread", "bot"],
                condition=Q(state__in=["pending", "running", "waiting"]),
                name="turn_open_once",
            ),
            # B13: a single bot answers one room at a time.
            models.UniqueConstraint(
                fields=["slot"],
                condition=Q(state__in=["pending", "running", "waiting"]),
                name="turn_slot_once",
            ),
            models.CheckConstraint(
                condition=Q(holder__isnull=False) | ~Q(state="running"),
                name="turn_running_has_holder",
            ),
            models.CheckConstraint(
                condition=Q(holder__isnull=True, due_at__isnull=True)
                | ~Q(state__in=["succeeded", "failed", "cancelled"]),
                name="turn_settled_holds_nothing",
            ),
        ]
        indexes = [
            # For runtime.turns.claim(): the oldest ready turn of the next house.
            models.Index(
                fields=["namespace", "pool", "house", "ready_at"],
                name="turn_ready",
                condition=Q(state="pending"),
            ),
            # For liveness and the conductor: who holds what.
            models.Index(
                fields=["holder"],
                name="turn_held",
                condition=Q(state="running"),
            ),
            # For the conductor: turns past their deadline, parked ones included.
            models.Index(
                fields=["namespace", "due_at"],
                name="turn_due",
                condition=Q(due_at__isnull=False),
            ),
            # For a thread's page: its turns.
            models.Index(
                fields=["thread"],
                name="turn_by_thread",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.what} in {self.thread_id}"


class TurnMessage(models.Model):
    """A line of a turn's log: a model's message, a tool's call or its result.

    A tool's call is written before the tool starts.
    """

    class Kind(models.TextChoices):
        MODEL = "model"
        CALL = "call"
        RESULT = "result"
        OUTPUT = "output"
        PERSON = "person"
        NOTE = "note"  # what System tells the model

    turn = models.ForeignKey(
        Turn, models.PROTECT, related_name="messages", db_index=False
    )
    number = models.IntegerField()
    kind = models.CharField(max_length=6, choices=Kind)
    body = models.JSONField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["turn", "number"]
        constraints = [
            # Also the reader's index: a turn's log in order.
            models.UniqueConstraint(fields=["turn", "number"], name="message_once"),
        ]

    def __str__(self) -> str:
        return f"{self.number}. {self.kind}"
