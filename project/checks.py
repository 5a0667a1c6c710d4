"""System checks with ids."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004  Django's word


@register()
def nothing_is_eager(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Refuse eager mode: work would run inside the request that asked for it."""
    if settings.CELERY_TASK_ALWAYS_EAGER:
        return [
            Error(
                "CELERY_TASK_ALWAYS_EAGER is on, so work would run inside requests.",
                hint="Take the setting out; `manage.py up` starts real workers.",
                id="threadwork.E001",
            )
        ]
    return []


@register()
def sessions_last(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Warn of a pooler without an address beside it where sessions last."""
    pooled = settings.DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"]
    if pooled and settings.DATABASE_DIRECT_URL == settings.DATABASE_URL:
        return [
            Warning(
                "DATABASE_POOLER is on and DATABASE_DIRECT_URL is not set, so a dead "
                "worker is noticed only when LEASE_SECONDS have passed.",
                hint="Give DATABASE_DIRECT_URL an address where sessions last.",
                id="threadwork.W001",
            )
        ]
    return []
