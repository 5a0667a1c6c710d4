"""Times, icons and counts for templates."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from threads import markdown, shown

register = template.Library()


@register.simple_tag
def icon(name: str) -> SafeString:
    return format_html(
        '<svg class="icon" aria-hidden="true"><use href="{}#{}"></use></svg>',
        static("project/icons.svg"),
        name,
    )


@register.filter
def inline(words: str) -> SafeString:
    return mark_safe(markdown.as_inline(words))  # noqa: S308  nothing in it runs


@register.filter
def moment(at: str | datetime | None) -> SafeString:
    """Show a time; the page's script says it relative to now, this one on hover."""
    if not at:
        return SafeString("")
    when = datetime.fromisoformat(at) if isinstance(at, str) else at
    when = when.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        f"{when:%Y-%m-%dT%H:%M:%SZ}",
        f"{when:%A %d %B %Y, %H:%M:%S} UTC",
        f"{when:%d %b %Y, %H:%M} UTC",
    )


@register.simple_tag(takes_context=True)
def waiting_count(context: dict[str, Any]) -> int:
    user = context["user"]
    return shown.open_gates(user).count() if user.is_authenticated else 0
