"""What every role checks before it starts."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


def require_servers(role: str) -> None:
    """Stop a role that has no database or broker named; never run work inline.

    Raises ImproperlyConfigured with the variable's name.
    """
    for name in ("DATABASE_URL", "BROKER_URL"):
        if not getattr(settings, name):
            raise ImproperlyConfigured(
                f"{role} cannot start: {name} is not set. "
                "`manage.py up` starts everything on one machine."
            )
