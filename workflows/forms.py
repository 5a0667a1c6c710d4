"""What people send: read, checked and said back where it does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from django import forms

from threads import text
from workflows import plan, templating
from workflows.models import Run, Workflow

LIMIT = 50
MOST = 500


class StartForm(forms.Form):
    """A run's payload, and a key that makes a second press of the button harmless."""

    payload = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(
            attrs={"rows": 6, "spellcheck": "false", "autocapitalize": "off"}
        ),
    )
    once = forms.UUIDField(widget=forms.HiddenInput, initial=uuid4)

    def clean_payload(self) -> object:
        raw: str = self.cleaned_data["payload"]
        if not raw.strip():
            return {}
        try:
            return text.loads(raw, where="payload")
        except text.Unclean as error:
            raise forms.ValidationError(beside(error)) from None


def json_of(sent: Mapping[str, Any], field: str) -> object:
    """Return the JSON of a field, nothing as an empty object; raise Unclean."""
    raw = str(sent.get(field, ""))
    return text.loads(raw, where=field) if raw.strip() else {}


def beside(error: Exception) -> str:
    """Say at the payload's field what is wrong with it, without naming it twice."""
    words = str(error)
    inside = words.removeprefix("payload: ")
    return words if inside == words else f"The payload {inside}."


class FilterForm(forms.Form):
    """The filters of the run list, as they stand in its address."""

    state = forms.ChoiceField(
        required=False, choices=[("", "any state"), *Run.State.choices]
    )
    failed = forms.BooleanField(required=False)
    workflow = forms.CharField(required=False, max_length=64)
    limit = forms.IntegerField(required=False, min_value=1, max_value=MOST)

    def chosen(self) -> dict[str, Any]:
        """Return what fits; a filter that does not is as good as none."""
        self.is_valid()
        kept = self.cleaned_data
        return {
            "state": kept.get("state", ""),
            "failed": kept.get("failed", False),
            "workflow": kept.get("workflow", ""),
            "limit": kept.get("limit") or LIMIT,
        }


def payload_names(workflow: Workflow) -> list[str]:
    """Return what of the payload the workflow's steps read."""
    found: set[str] = set()
    for stored in workflow.steps:
        step = plan.parse_step(stored)
        if not isinstance(step, plan.Unknown):
            found.update(paths_in(list(plan.template_fields(step).values())))
    return sorted(found)


def paths_in(value: object) -> set[str]:
    match value:
        case str():
            paths = {p.removeprefix("payload.") for p in templating.paths(value)}
            return {p for p in paths if p.split(".")[0] not in {"steps", "run"}}
        case dict():
            return set().union(*(paths_in(item) for item in value.values()))
        case list():
            return set().union(*(paths_in(item) for item in value))
        case _:
            return set()
