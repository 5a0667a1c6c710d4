"""Runs, steps, attempts, events and the slot ledger: read, never edited."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from threads.admin import Journal, Lines
from workflows import services
from workflows.exceptions import WorkflowError
from workflows.models import Attempt, Checkpoint, Event, Run, Slot


class Steps(Lines):
    model = Checkpoint
    fields = [
        "position", "iteration", "name", "kind", "state", "error", "by_hand",
        "finished_at",
    ]  # fmt: skip
    ordering = ["position", "iteration"]


class Attempts(Lines):
    model = Attempt
    fields = ["number", "holder", "began_at", "ended_at", "ended"]


@admin.register(Run)
class RunAdmin(Journal):
    list_display = ["short", "workflow", "state", "created_at", "page", "reason"]
    list_filter = ["state", "trigger", "house", "workflow"]
    list_select_related = ["workflow"]
    search_fields = ["=id", "key", "workflow__slug"]
    date_hierarchy = "created_at"
    inlines = [Steps, Attempts]
    actions = ["pause_runs", "resume_runs", "cancel_runs", "retry_runs"]

    @admin.display(description="run")
    def short(self, run: Run) -> str:
        return run.pk.hex[-8:]

    @admin.display(description="failed because")
    def reason(self, run: Run) -> str:
        return f"{run.failure['step']}: {run.failure['reason']}" if run.failure else ""

    @admin.display(description="thread")
    def page(self, run: Run) -> SafeString:
        href = reverse("workflows:run", args=[run.pk])
        return format_html('<a href="{}">open</a>', href)

    @admin.action(description="Cancel the chosen runs")
    def cancel_runs(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        def act(run: Run) -> str:
            services.cancel_run(run.pk, by=request.user)
            return "cancelled or being stopped."

        self.each(request, queryset, act)

    @admin.action(description="Pause the chosen runs: no further step begins")
    def pause_runs(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        def act(run: Run) -> str:
            services.pause_run(run.pk, by=request.user)
            return "paused."

        self.each(request, queryset, act)

    @admin.action(description="Resume the chosen runs")
    def resume_runs(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        def act(run: Run) -> str:
            services.resume_run(run.pk, by=request.user)
            return "resumed."

        self.each(request, queryset, act)

    @admin.action(description="Retry the chosen runs, keeping what is done")
    def retry_runs(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        def act(run: Run) -> str:
            return f"retried as {services.retry_run(run, by=request.user).run.pk}."

        self.each(request, queryset, act)

    def each(
        self,
        request: HttpRequest,
        queryset: QuerySet[Run],
        act: Callable[[Run], str],
    ) -> None:
        """Do it to each run, and say of each how that went."""
        for run in queryset:
            try:
                words = act(run)
            except WorkflowError as refusal:
                self.message_user(request, f"{run.pk}: {refusal}", level="warning")
            else:
                self.message_user(request, f"{run.pk}: {words}")


@admin.register(Checkpoint)
class StepAdmin(Journal):
    list_display = ["name", "run", "position", "iteration", "kind", "state", "error"]
    list_filter = ["state", "kind"]
    list_select_related = ["run"]
    search_fields = ["=run__id", "name"]
    ordering = ["-pk"]


@admin.register(Attempt)
class AttemptAdmin(Journal):
    list_display = ["run", "number", "holder", "began_at", "ended_at", "ended"]
    list_filter = ["ended"]
    list_select_related = ["run"]
    search_fields = ["=run__id"]
    ordering = ["-pk"]


@admin.register(Event)
class EventAdmin(Journal):
    list_display = ["name", "key", "house", "emitted_at"]
    list_filter = ["house"]
    list_select_related = ["house"]
    search_fields = ["=name", "=key"]
    ordering = ["-pk"]


@admin.register(Slot)
class SlotAdmin(Journal):
    list_display = ["workflow", "slot_at", "outcome", "reason", "count", "run_id"]
    list_filter = ["outcome", "workflow"]
    list_select_related = ["workflow"]
    ordering = ["-pk"]
