"""A role without its servers does not start, and work is never run inline (B5)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from project import roles
from project.checks import sessions_last

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("missing", ["DATABASE_URL", "BROKER_URL"])
def test_a_missing_server_is_named_and_nothing_is_run_instead(settings, missing):
    settings.DATABASE_URL, settings.BROKER_URL = "postgresql:///x", "redis:///0"
    roles.require_servers("web")
    setattr(settings, missing, "")

    with pytest.raises(ImproperlyConfigured) as refused:
        roles.require_servers("web")

    assert str(refused.value).startswith(f"web cannot start: {missing} is not set.")


@pytest.mark.parametrize("role", [["worker", "-c", "1", "-P", "threads"], ["beat"]])
def test_celery_never_falls_back_on_a_broker_of_its_own(role):
    env = {**os.environ, "BROKER_URL": "", "DATABASE_URL": "postgresql://nowhere/x"}

    ended = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "project", *role],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 1
    assert "A worker or beat cannot start: BROKER_URL is not set." in ended.stderr


def test_eager_mode_is_refused(settings):
    assert "threadwork.E001" not in {found.id for found in checks.run_checks()}
    settings.CELERY_TASK_ALWAYS_EAGER = True

    (found,) = [f for f in checks.run_checks() if f.id == "threadwork.E001"]

    assert found.level == checks.ERROR
    assert "CELERY_TASK_ALWAYS_EAGER" in found.msg


def test_tickets_are_never_run_in_place():
    from project.celery import app  # noqa: PLC0415

    assert app.conf.task_always_eager is False
    assert settings.CELERY_TASK_ALWAYS_EAGER is False


def test_a_pooler_without_an_address_for_sessions_is_warned_of(settings, monkeypatch):
    own = settings.DATABASES["default"]
    monkeypatch.setitem(own, "DISABLE_SERVER_SIDE_CURSORS", 1)
    settings.DATABASE_URL = settings.DATABASE_DIRECT_URL = "postgresql://pool/x"

    (warning,) = sessions_last(None)
    assert warning.id == "threadwork.W001"

    settings.DATABASE_DIRECT_URL = "postgresql://direct/x"
    assert sessions_last(None) == []
