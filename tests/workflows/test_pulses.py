"""What an operator is told besides the runs (A41, C6, C8)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from project.celery import app
from tests import hands
from threads import liveness, post
from threads.models import Job, Pulse
from workflows import documents, pulses, workers
from workflows.engine.conductor import Conductor


def living(**more):
    facts = {"namespace": "default", "host": "h1", "process": 7, "version": ""}
    more = {"role": "worker-steps", "name": "w1", "locked": True, **more}
    return Pulse.objects.create(**{**facts, **more})


def test_all_is_well_and_nothing_is_noted(house, alice):
    living()

    assert documents.runs(alice)["notes"] == []


def test_a_silent_messenger_is_told_off_the_rows(house, alice):
    pulse = living(role="conductor", unheard_since=Now() - timedelta(minutes=5))

    (words,) = pulses.notes(alice)
    assert words.startswith("The messenger has not answered since 20")

    # One that has not been heard of itself says nothing of the messenger.
    hands.sql("UPDATE threads_pulse SET seen_at = now() - interval '1 hour'")
    assert pulses.notes(alice) == []
    pulse.delete()


def test_processes_behind_a_pooler_are_counted(house, alice):
    living(locked=False)
    living(name="w2", namespace="staging", locked=False)
    living(name="w3", locked=False, dead_at=Now())

    (words,) = pulses.notes(alice)
    assert words.startswith("1 of the processes here")
    assert words.endswith("set DATABASE_DIRECT_URL.")


def test_jobs_of_a_type_nobody_knows_are_named(house, alice):
    facts = {"house": house, "namespace": "default", "payload": {}}
    for _ in range(2):
        Job.objects.create(
            type="party.v9", ready_at=Now() - timedelta(hours=1), **facts
        )
    Job.objects.create(type="mail.v1", ready_at=Now() - timedelta(hours=1), **facts)
    Job.objects.create(type="moon.v1", **facts)

    assert pulses.notes(alice) == [
        "Jobs wait for a worker that knows their type: party.v9 (2)."
    ]


@pytest.mark.django_db(transaction=True)
def test_the_conductor_notes_a_messenger_that_does_not_answer(house, monkeypatch):
    monkeypatch.setattr(post, "messenger", post.Messenger())
    monkeypatch.setattr(app.conf, "broker_url", "redis://127.0.0.1:1/0")
    holder = liveness.here.begin("conductor")
    try:
        post.messenger.silent = True
        conductor = Conductor()
        conductor.top_up()
        assert workers.messenger_silent_since("default") is not None

        # It answers again, although nothing has been posted meanwhile.
        monkeypatch.setattr(app.conf, "broker_url", "memory://")
        conductor.next_top_up = 0.0
        conductor.top_up()
        assert workers.messenger_silent_since("default") is None
        assert Pulse.objects.get(pk=holder.id).unheard_since is None
    finally:
        liveness.here.end()
