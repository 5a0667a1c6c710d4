from __future__ import annotations

from unittest import mock

from django.db import OperationalError
from django.db.migrations.recorder import MigrationRecorder

from project.celery import app


def test_a_process_that_answers_is_alive(client):
    assert client.get("/healthz").json() == {"status": "alive"}


def test_a_broker_that_is_away_is_named(client, db, monkeypatch):
    monkeypatch.setattr(app.conf, "broker_url", "redis://127.0.0.1:1/0")

    answer = client.get("/readyz")

    assert answer.status_code == 503
    found = answer.json()
    assert found["status"] == "not ready"
    assert found["database"] == found["migrations"] == "ok"
    assert found["broker"].startswith("the broker does not answer")


def test_everything_there_is_ready(client, db, monkeypatch):
    monkeypatch.setattr(app.conf, "broker_url", "memory://")

    answer = client.get("/readyz")

    assert (answer.status_code, answer.json()["status"]) == (200, "ready")


def test_an_absent_database_is_named(client, db, monkeypatch):
    monkeypatch.setattr(app.conf, "broker_url", "memory://")
    gone = OperationalError("connection refused\nis it up?")

    with mock.patch("project.health.connection.cursor", side_effect=gone):
        answer = client.get("/readyz")

    assert answer.status_code == 503
    assert (
        "the database does not answer: connection refused" in answer.json()["database"]
    )


def test_migrations_that_are_not_applied_yet_are_named(client, db, monkeypatch):
    monkeypatch.setattr(app.conf, "broker_url", "memory://")
    newest = MigrationRecorder.Migration.objects.filter(app="workflows").latest("id")
    newest.delete()

    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["migrations"] == (f"not applied yet: workflows.{newest.name}")
