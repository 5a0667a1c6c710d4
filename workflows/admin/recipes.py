"""Workflows: written through authoring, so that nothing here can go round its rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from threads.admin import RowForm, Rows
from threads.models import House
from workflows import authoring, plan, services
from workflows.exceptions import WorkflowError
from workflows.models import Workflow
from workflows.services import Start

STEPS_FIELD = re.compile(r"steps\b")
NUMBERS = ("limit", "max_attempts", "bot")
WORDS = ("slug", "name", "schedule", "timezone", "missed", "overlap")


def spoken(seconds: float | None) -> str:
    """Return seconds as the form takes them back."""
    return "" if seconds is None else f"{seconds:g}s"


class WorkflowForm(RowForm):
    """A workflow's file, field by field; the steps are its YAML or JSON."""

    slug = forms.CharField(max_length=64)
    bot = forms.CharField(max_length=64, initial="runner", help_text="Its handle.")
    steps = forms.CharField(
        strip=False,
        widget=forms.Textarea(attrs={"rows": 24, "cols": 100, "spellcheck": "false"}),
        help_text="A list of steps in YAML or JSON. Runs in flight keep their own.",
    )
    deadline = forms.CharField(
        required=False,
        max_length=20,
        help_text="How long a run may take in all, such as 90m or 2d; empty: any time.",
    )
    notify = forms.CharField(
        required=False, help_text="Members or roles to mail, separated by commas."
    )

    class Meta:
        model = Workflow
        fields = [
            "house", "slug", "name", "bot", "schedule", "timezone", "missed",
            "overlap", "limit", "max_attempts", "deadline", "notify",
            "steps",
        ]  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        flow = self.instance
        self.fields["name"].required = False
        if flow.steps:
            # The database keeps no order of keys; people write these two first.
            steps = [{"name": "", "kind": "", **step} for step in flow.steps]
            shown = plan.dump_file({"steps": steps}).removeprefix("steps:\n")
            self.initial["steps"] = shown
            self.initial["bot"] = flow.bot.handle
            self.initial["deadline"] = spoken(flow.deadline)
            self.initial["notify"] = ", ".join(flow.notify)

    def _post_clean(self) -> None:
        """Put nothing on the row: authoring is what writes it."""

    def clean(self) -> dict[str, Any]:
        kept = super().clean() or self.cleaned_data
        house = kept.get("house") or (
            self.instance.house if self.instance.slug else None
        )
        if not self.errors and house is not None:
            self.refuse_misfits(house, self.recipe(kept))
            self.house_to_keep = house
        return kept

    def recipe(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields as the workflow's file would say them."""
        data = {name: kept.get(name) for name in NUMBERS}
        data["deadline"] = kept.get("deadline") or None
        for name in WORDS:
            data[name] = kept.get(name) or getattr(self.instance, name, "")
            if name in kept and not kept[name]:
                data[name] = None
        data["notify"] = [n.strip() for n in kept["notify"].split(",") if n.strip()]
        data["steps"] = self.read_steps(kept["steps"])
        return {name: value for name, value in data.items() if value not in (None, [])}

    def read_steps(self, raw: str) -> object:
        try:
            text = raw.strip()
            lines = [f"  {line}" for line in raw.replace("\r\n", "\n").split("\n")]
            file = (
                f'{{"steps": {text}}}'
                if text[:1] == "["
                else ("steps:\n" + "\n".join(lines))
            )
            read = plan.load_file(file)
        except plan.Refused as refusal:
            self.add_error("steps", str(refusal))
            return []
        return read["steps"] if isinstance(read, dict) else read

    def refuse_misfits(self, house: House, data: dict[str, Any]) -> None:
        """Say at each field what authoring would refuse, without writing anything."""
        if self.errors:
            return
        try:
            found = authoring.misfits(house, plan.parse_recipe(data))
            problems = list(found)
        except plan.Refused as refusal:
            problems = [(p.field, p.reason) for p in refusal.problems]
        for field, reason in problems:
            inside = STEPS_FIELD.match(field) or field not in self.fields
            words = f"{field}: {reason}" if inside else reason
            self.add_error("steps" if inside else field, words)
        self.data_to_keep = data


@admin.register(Workflow)
class WorkflowAdmin(Rows):
    form = WorkflowForm
    fields = [*WorkflowForm.Meta.fields]
    list_display = ["slug", "name", "house", "schedule", "next_slot_at", "paused"]
    list_filter = ["paused", "house"]
    list_select_related = ["house"]
    search_fields = ["slug", "name"]
    actions = ["start", "pause", "resume"]
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Workflow]:
        return Workflow.objects.current().select_related("house", "bot")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["house", "slug"] if obj else []

    def save_model(
        self, request: HttpRequest, obj: Workflow, form: Any, change: Any
    ) -> None:
        saved = authoring.save_workflow(form.house_to_keep, form.data_to_keep)
        obj.pk = saved.workflow.pk
        obj.refresh_from_db()
        words = ", ".join(saved.changes) or "nothing changed"
        self.message_user(request, f"{saved.workflow.slug}: {words}")

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Say what is taken out of use; its runs, ledger and threads all stay."""
        names = [str(workflow) for workflow in objs]
        return names, {"workflows": len(names)}, set(), []

    def delete_model(self, request: HttpRequest, obj: Workflow) -> None:
        authoring.delete_workflow(obj)

    def delete_queryset(
        self, request: HttpRequest, queryset: QuerySet[Workflow]
    ) -> None:
        for workflow in queryset:
            authoring.delete_workflow(workflow)

    @admin.action(description="Start a run of each")
    def start(self, request: HttpRequest, queryset: QuerySet[Workflow]) -> None:
        for workflow in queryset:
            try:
                by = Start(by=request.user)
                run = services.spawn_run(workflow, start=by).run
            except WorkflowError as refusal:
                self.message_user(request, str(refusal), level="warning")
            else:
                self.message_user(request, f"{workflow.slug}: started run {run.pk}")

    @admin.action(description="Pause: skip slots, hold new runs back")
    def pause(self, request: HttpRequest, queryset: QuerySet[Workflow]) -> None:
        for workflow in queryset:
            authoring.pause_workflow(workflow, reason=f"by {request.user}")
            self.message_user(request, f"{workflow.slug}: paused")

    @admin.action(description="Resume: slots fire again, held runs begin")
    def resume(self, request: HttpRequest, queryset: QuerySet[Workflow]) -> None:
        for workflow in queryset:
            authoring.resume_workflow(workflow)
            self.message_user(request, f"{workflow.slug}: resumed")
