"""Times, icons and counts for templates."""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from threads import markdown, shown

register = template.Library()
TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)")
CODE = re.compile("`([^`<>]+)`")


@register.simple_tag
def icon(name: str) -> SafeString:
    return format_html(
        '<svg class="icon" aria-hidden="true"><use href="{}#{}"></use></svg>',
        static("project/icons.svg"),
        name,
    )


@register.filter
def moment(at: str | datetime | None) -> SafeString:
    """Show a time; the page's script says it relative to now, this one on hover."""
    if not at:
        return SafeString("")
    return timed(read(at), look="ago")


@register.filter
def clock(at: str | datetime | None) -> SafeString:
    """Show a time as the reader's own clock and calendar say it."""
    return timed(read(at), look="clock") if at else SafeString("")


@register.filter
def spoken(words: str) -> SafeString:
    """Show words as they were typed, with the times in them as times."""
    parts = TIME.split(escape(words))
    for number in range(1, len(parts), 2):
        moment = parts[number].replace(" UTC", "+00:00")
        # What only looks like a time stays the text that somebody wrote.
        with contextlib.suppress(ValueError):
            parts[number] = timed(datetime.fromisoformat(moment), look="clock")
    return mark_safe("".join(parts))  # noqa: S308  escaped above


@register.filter
def told(words: str) -> SafeString:
    """Show a sentence of the house, with its times and its `code` as such."""
    return mark_safe(CODE.sub(r"<code>\1</code>", spoken(words)))  # noqa: S308  as above


@register.filter
def inline(words: str) -> SafeString:
    return mark_safe(markdown.as_inline(words))  # noqa: S308  nothing in it runs


def read(at: str | datetime) -> datetime:
    return datetime.fromisoformat(at) if isinstance(at, str) else at


def timed(when: datetime, *, look: str) -> SafeString:
    when = when.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{}" class="{}">{}</time>',
        f"{when:%Y-%m-%dT%H:%M:%SZ}",
        f"{when:%A %d %B %Y, %H:%M:%S} UTC",
        look,
        f"{when:%d %b %Y, %H:%M} UTC",
    )


@register.simple_tag(takes_context=True)
def waiting_count(context: dict[str, Any]) -> int:
    user = context["user"]
    return shown.waiting_for(user) if user.is_authenticated else 0
