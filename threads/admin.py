"""Houses are set up here; threads and what hangs on them are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from threads import tenancy
from threads.exceptions import Malformed
from threads.models import (
    Bot,
    Entry,
    Gate,
    GateAnswer,
    House,
    Job,
    Member,
    Pulse,
    Secret,
    Thread,
    Turn,
    TurnMessage,
)

if TYPE_CHECKING:
    Rows = admin.ModelAdmin[Any]
    Inside = admin.TabularInline[Any, Any]
    RowForm = forms.ModelForm[Any]
else:  # generic for the type checker only
    Rows, Inside, RowForm = admin.ModelAdmin, admin.TabularInline, forms.ModelForm


class Journal(Rows):
    """Rows that are written by the engine and only read by people."""

    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class Lines(Inside):
    """Rows of a journal inside the page of what they belong to."""

    extra = 0
    can_delete = False
    show_change_link = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class Members(Inside):
    model = Member
    extra = 0
    autocomplete_fields = ["user"]


@admin.register(House)
class HouseAdmin(Rows):
    list_display = ["slug", "name", "namespace", "created_at"]
    search_fields = ["slug", "name"]
    inlines = [Members]

    def save_model(self, request: Any, obj: Any, form: Any, change: Any) -> None:
        super().save_model(request, obj, form, change)
        tenancy.furnish(obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Member)
class MemberAdmin(Rows):
    list_display = ["user", "house", "role", "created_at"]
    list_filter = ["role", "house"]
    list_select_related = ["user", "house"]
    search_fields = ["user__username", "user__email", "house__slug"]
    autocomplete_fields = ["user", "house"]


@admin.register(Bot)
class BotAdmin(Rows):
    list_display = ["handle", "name", "house", "runtime", "model", "trigger_mode"]
    list_filter = ["runtime", "trigger_mode", "house"]
    list_select_related = ["house"]
    search_fields = ["handle", "name", "house__slug"]
    autocomplete_fields = ["house"]


class SecretForm(RowForm):
    """A name and a value that is kept encrypted and never shown again."""

    new_value = forms.CharField(
        label="value",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Kept encrypted and never shown. Setting a name again replaces it.",
    )

    class Meta:
        model = Secret
        fields = ["house", "name"]

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        try:
            tenancy.refuse_name(name)
        except Malformed as error:
            raise forms.ValidationError(str(error)) from None
        return name

    def clean_new_value(self) -> str:
        value: str = self.cleaned_data["new_value"]
        try:
            tenancy.refuse_value(str(self.data.get("name", "")), value)
        except Malformed as error:
            raise forms.ValidationError(str(error)) from None
        return value

    def _post_clean(self) -> None:
        """Let a name that stands already pass: setting it again is how it changes."""
        for field in ("house", "name"):
            if field in self.cleaned_data:
                setattr(self.instance, field, self.cleaned_data[field])


@admin.register(Secret)
class SecretAdmin(Rows):
    form = SecretForm
    fields = ["house", "name", "new_value"]
    list_display = ["name", "house", "updated_at"]
    list_filter = ["house"]
    list_select_related = ["house"]
    list_display_links = None
    search_fields = ["name"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_view_permission(request)

    def save_model(
        self, request: HttpRequest, obj: Secret, form: Any, change: Any
    ) -> None:
        value: str = form.cleaned_data["new_value"]
        tenancy.set_secret(obj.house, obj.name, value)
        obj.pk = Secret.objects.get(house=obj.house, name=obj.name).pk

    def delete_model(self, request: HttpRequest, obj: Secret) -> None:
        tenancy.remove_secret(obj.house, obj.name)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Secret]) -> None:
        for secret in queryset:
            tenancy.remove_secret(secret.house, secret.name)


class Entries(Lines):
    model = Entry
    fields = ["number", "author_name", "kind", "body", "created_at"]
    readonly_fields = ["created_at"]
    ordering = ["number"]


@admin.register(Thread)
class ThreadAdmin(Journal):
    list_display = ["title", "kind", "house", "bot", "last_number", "created_at"]
    list_filter = ["kind", "house"]
    list_select_related = ["house", "bot"]
    search_fields = ["=id", "title"]
    date_hierarchy = "created_at"
    inlines = [Entries]


@admin.register(Entry)
class EntryAdmin(Journal):
    list_display = ["number", "thread", "author_name", "kind", "start", "created_at"]
    list_filter = ["kind", "author_kind"]
    list_select_related = ["thread"]
    search_fields = ["=thread__id", "author_name"]
    ordering = ["-pk"]

    @admin.display(description="entry")
    def start(self, entry: Entry) -> str:
        return entry.body[:120]


class Answers(Lines):
    model = GateAnswer
    fields = ["name", "answer", "comment", "door", "created_at"]
    readonly_fields = ["created_at"]


@admin.register(Gate)
class GateAdmin(Journal):
    list_display = ["title", "kind", "state", "outcome", "closed_by", "due_at", "house"]
    list_filter = ["state", "kind", "outcome", "house"]
    list_select_related = ["house"]
    search_fields = ["=id", "=thread__id", "title"]
    date_hierarchy = "created_at"
    inlines = [Answers]


class Messages(Lines):
    model = TurnMessage
    fields = ["number", "kind", "body", "created_at"]
    readonly_fields = ["created_at"]
    ordering = ["number"]


@admin.register(Turn)
class TurnAdmin(Journal):
    list_display = ["id", "what", "bot", "state", "attempts", "reason", "created_at"]
    list_filter = ["state", "what", "house"]
    list_select_related = ["bot"]
    search_fields = ["=id", "=thread__id", "subject"]
    date_hierarchy = "created_at"
    inlines = [Messages]


@admin.register(Job)
class JobAdmin(Journal):
    list_display = ["id", "type", "state", "attempts", "last_error", "enqueued_at"]
    list_filter = ["state", "type"]
    search_fields = ["=id", "type", "dedupe_key"]
    date_hierarchy = "enqueued_at"


@admin.register(Pulse)
class PulseAdmin(Journal):
    list_display = [
        "role",
        "name",
        "namespace",
        "host",
        "version",
        "seen_at",
        "dead_at",
    ]
    list_filter = ["role", "namespace", ("dead_at", admin.EmptyFieldListFilter)]
    search_fields = ["name", "host"]
    ordering = ["-seen_at"]
