"""System checks with ids."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register


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
