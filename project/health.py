"""/healthz: this process answers. /readyz: it can work, or what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse

from project.celery import app

TIMEOUT = 2.0  # seconds a server has to answer


def healthz(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "alive"})


def readyz(request: HttpRequest) -> JsonResponse:
    found = {name: check() for name, check in CHECKS.items()}
    missing = {name: words for name, words in found.items() if words}
    body: Mapping[str, Any] = {
        "status": "not ready" if missing else "ready",
        **{name: words or "ok" for name, words in found.items()},
    }
    return JsonResponse(body, status=503 if missing else 200)


def database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        return f"the database does not answer: {one_line(error)}"
    return ""


def migrations() -> str:
    try:
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError:
        return "unknown while the database does not answer"
    names = [f"{migration.app_label}.{migration.name}" for migration, _ in plan]
    return f"not applied yet: {', '.join(names)}" if names else ""


def broker() -> str:
    try:
        with app.connection_for_read(connect_timeout=TIMEOUT) as link:
            link.ensure_connection(max_retries=0, timeout=TIMEOUT)
    except Exception as error:  # noqa: BLE001  each transport has errors of its own
        return f"the broker does not answer: {one_line(error)}"
    return ""


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


CHECKS: Mapping[str, Callable[[], str]] = {
    "database": database,
    "broker": broker,
    "migrations": migrations,
}
