"""Settings read from the environment: once, typed, stopping with the name."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, default)


def flag(name: str, *, default: bool = False) -> bool:
    """Read a yes or no; raise ImproperlyConfigured for anything else."""
    value = os.environ.get(name, "").strip().lower()
    if not value:
        return default
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} must be yes or no, not “{value}”.")


def number(name: str, default: float) -> float:
    value = os.environ.get(name, "").strip()
    if not value:
        return default
    try:
        return float(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a number, not “{value}”.") from None


def whole(name: str, default: int) -> int:
    value = number(name, default)
    if value != int(value):
        raise ImproperlyConfigured(f"{name} must be a whole number, not {value}.")
    return int(value)


def words(name: str, default: tuple[str, ...] = ()) -> list[str]:
    """Read a list separated by commas."""
    value = os.environ.get(name)
    if value is None:
        return list(default)
    return [word.strip() for word in value.split(",") if word.strip()]


def calls(name: str) -> dict[str, str]:
    """Read `name=dotted.path`, `name=quick:dotted.path`, `name=celery:task.name`.

    Raises ImproperlyConfigured for anything else.
    """
    found: dict[str, str] = {}
    for word in words(name):
        key, _, value = word.partition("=")
        how, _, target = value.strip().rpartition(":")
        if not (key.strip() and target and how in {"", "quick", "function", "celery"}):
            raise ImproperlyConfigured(
                f"{name} must list name=dotted.path, name=quick:dotted.path or"
                f" name=celery:its.name, not “{word}”."
            )
        found[key.strip()] = value.strip()
    return found


def database(url: str) -> dict[str, Any]:
    """Return Django's settings for a postgresql:// URL.

    A socket's folder may stand in `?host=`; other query parts become libpq options.
    Raises ImproperlyConfigured for any other scheme.
    """
    parts = urlsplit(url)
    if url and parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(
            f"DATABASE_URL must begin with postgresql://, not {parts.scheme}://."
        )
    options = dict(parse_qsl(parts.query))
    host = options.pop("host", "") or unquote(parts.hostname or "")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or options.pop("dbname", "threadwork"),
        "USER": unquote(parts.username or "") or options.pop("user", ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": str(parts.port or options.pop("port", "")),
        "OPTIONS": {**prepared(), **options},
    }


def prepared() -> dict[str, Any]:
    """Return what lets the server keep statements prepared, on a session of our own.

    Django would bind parameters in the client, and each statement be planned anew.
    Behind a pooler the next statement may meet another session. A process that stands
    still in the middle of a write holds its locks for as long as a lease, no longer.
    """
    if flag("DATABASE_POOLER"):
        return {}
    lease = int(1000 * number("LEASE_SECONDS", 60.0))
    limit = f"-c idle_in_transaction_session_timeout={lease}"
    return {"server_side_binding": True, "prepare_threshold": 2, "options": limit}
