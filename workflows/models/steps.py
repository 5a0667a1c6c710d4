from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from threads.models import Bot, Gate, Thread, Turn
from workflows.models.runs import Run


class Checkpoint(models.Model):
    """The record of one execution of a step; a finished one never runs again."""

    class State(models.TextChoices):
        RUNNING = "running"
        SLEEPING = "sleeping"
        WAITING = "waiting"
        COMPLETED = "completed"
        FAILED = "failed"
        SKIPPED = "skipped"
        CANCELLED = "cancelled"

    ENDED = (State.COMPLETED, State.FAILED, State.SKIPPED, State.CANCELLED)

    run = models.ForeignKey(Run, models.PROTECT, related_name="steps", db_index=False)
    position = models.IntegerField()
    iteration = models.IntegerField(default=1)
    tries = models.IntegerField(default=1)
    crashes = models.IntegerField(default=0)
    name = models.CharField(max_length=64)
    kind = models.CharField(max_length=32)
    state = models.CharField(max_length=9, choices=State)
    instruction = models.TextField(default="")
    entry = models.IntegerField(null=True)
    result = models.JSONField(null=True)
    error = models.TextField(default="")
    # How a person ended the step, and why: state, result, by, reason, at.
    by_hand = models.JSONField(null=True)
    started_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["run", "position", "iteration"]
        verbose_name = "step"
        constraints = [
            # Also the reader's index: a run's steps in order.
            models.UniqueConstraint(
                fields=["run", "position", "iteration"], name="step_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.position}. {self.name}: {self.state}"


class Attempt(models.Model):
    """One try at a run: a new one opens only when the earlier worker died."""

    class Ended(models.TextChoices):
        SETTLED = "settled"
        CRASHED = "crashed"
        RELEASED = "released"

    run = models.ForeignKey(
        Run, models.PROTECT, related_name="attempt_log", db_index=False
    )
    number = models.IntegerField()
    holder = models.BigIntegerField()
    began_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    ended = models.CharField(max_length=8, choices=Ended, default="", blank=True)

    class Meta:
        ordering = ["run", "number"]
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="attempt_once"),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number}"


class RunThread(models.Model):
    """The mapping and the state of record: which thread, and what the run waits on."""

    class Kind(models.TextChoices):
        TURN = "turn"
        GATE = "gate"
        EVENT = "event"
        TIME = "time"
        RUN = "run"

    run = models.OneToOneField(Run, models.PROTECT, primary_key=True, related_name="+")
    thread = models.OneToOneField(Thread, models.PROTECT, related_name="+")
    worker_bot = models.ForeignKey(
        Bot, models.PROTECT, related_name="+", db_index=False
    )
    await_key = models.CharField(max_length=200, default="")
    await_kind = models.CharField(max_length=5, choices=Kind, default="", blank=True)
    await_turn = models.ForeignKey(
        Turn, models.PROTECT, null=True, related_name="+", db_index=False
    )
    await_gate = models.ForeignKey(
        Gate, models.PROTECT, null=True, related_name="+", db_index=False
    )
    await_run = models.UUIDField(null=True)
    event_name = models.CharField(max_length=200, default="", blank=True)
    event_key = models.CharField(max_length=200, default="", blank=True)
    queue = models.CharField(max_length=32, default="steps")
    await_started_at = models.DateTimeField(null=True)
    awaiting = models.BooleanField(default=False)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(awaiting=False)
                | (~Q(await_key="") & Q(await_started_at__isnull=False)),
                name="wait_has_its_anchor",
            ),
        ]
        indexes = [
            # For sweep.look_at_waits(): every wait still open, page by page. Ended waits
            # are most of the table, so they stay out of it.
            models.Index(
                fields=["run"],
                name="wait_of_run",
                condition=Q(awaiting=True),
            ),
            # For events.emit_event(): who waits for an event of this name.
            models.Index(
                fields=["event_name"],
                name="wait_event",
                condition=Q(awaiting=True, await_kind="event"),
            ),
            # For settling.wake_waiting(): who waits for the end of a run.
            models.Index(
                fields=["await_run"],
                name="wait_run",
                condition=Q(awaiting=True, await_kind="run"),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} in {self.thread_id}"
