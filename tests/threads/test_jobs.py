"""Jobs: one typed envelope, refused at the producer, kept where it cannot be read (B3-B7)."""

from __future__ import annotations

from typing import Any

import pytest
from django.core import mail
from pydantic import BaseModel, ValidationError

from tests import drive, factories, hands
from threads import envelopes, gates, post, services
from threads.envelopes import Mail
from threads.exceptions import BadEnvelope
from threads.jobs import mail as mail_job
from threads.models import Job
from threads.runtime import jobs
from workflows.models import Run
from workflows.services import look, spawn_run

GOOD = Mail(to="alice@example.com", subject="Hello", text="It works.")


@pytest.fixture(autouse=True)
def handled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "handlers", {"mail.v1": mail_job.handle})


def work() -> int:
    return jobs.work_off(holder=drive.holder("worker-jobs"))


def again() -> None:
    hands.sql("UPDATE threads_job SET ready_at = now() WHERE state = 'pending'")


def test_a_job_is_a_row_a_ticket_and_then_done(house, posted, mailoutbox):
    key = services.post_job(GOOD, house=house)

    job = Job.objects.get()
    assert (job.pk, job.type, job.state, job.payload["to"]) == (
        key, "mail.v1", "pending", "alice@example.com",
    )  # fmt: skip
    assert mailoutbox == []
    assert work() == 1
    job.refresh_from_db()
    assert (job.state, job.attempts, job.holder) == ("succeeded", 1, None)
    assert [(m.to, m.subject, m.body) for m in mail.outbox] == [
        (["alice@example.com"], "Hello", "It works.")
    ]


def test_a_malformed_payload_is_the_callers_error(house):
    for fields in ({"to": "x"}, {"text": "n" * 50_001}, {"cc": "b@example.com"}):
        with pytest.raises((ValidationError, BadEnvelope)):
            services.post_job(Mail(**{**GOOD.model_dump(), **fields}), house=house)
    odd = Mail.model_construct(to="a@example.com", subject="", text=7)
    with pytest.raises(BadEnvelope, match="subject: "):
        services.post_job(odd, house=house)

    assert not Job.objects.exists()


def test_an_envelope_has_four_fields_and_its_type_decides():
    fields = {"id": "5" * 32, "type": "mail.v1", "enqueued_at": "2026-01-01T00:00:00Z"}

    opened = envelopes.opened({**fields, "payload": GOOD.model_dump()})

    assert set(type(opened).model_fields) == {"id", "type", "payload", "enqueued_at"}
    assert opened.payload == GOOD
    changes: list[dict[str, Any]] = [
        {"type": "mail.v9"}, {"payload": {}}, {"version": 2},
    ]  # fmt: skip
    for broken in changes:
        with pytest.raises(BadEnvelope):
            envelopes.opened({**fields, "payload": GOOD.model_dump(), **broken})


def test_a_breaking_payload_is_a_new_type_beside_the_old(house, monkeypatch):
    monkeypatch.setattr(envelopes, "registry", dict(envelopes.registry))

    class MailTwo(envelopes.Payload):
        type_name = "mail.v2"
        people: list[str]

    got: list[BaseModel] = []
    monkeypatch.setitem(jobs.handlers, "mail.v2", got.append)
    services.post_job(GOOD)
    services.post_job(MailTwo(people=["a", "b"]))

    assert work() == 2

    assert got == [MailTwo(people=["a", "b"])]
    assert len(mail.outbox) == 1


def test_a_message_that_does_not_fit_is_kept_as_dead_and_not_tried_again(house):
    services.post_job(GOOD)
    Job.objects.update(payload={"to": "alice@example.com"})

    work()
    again()

    job = Job.objects.get()
    assert (job.state, job.attempts) == ("dead", 1)
    assert "subject" in job.last_error
    assert work() == 0
    assert mail.outbox == []


def test_a_type_that_nobody_here_knows_waits_in_sight(house, monkeypatch):
    services.post_job(GOOD)
    handle = jobs.handlers.pop("mail.v1")

    assert work() == 0
    job = Job.objects.get()
    assert (job.state, job.attempts) == ("pending", 0)

    monkeypatch.setitem(jobs.handlers, "mail.v1", handle)
    assert work() == 1
    assert len(mail.outbox) == 1


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(1, 30), (2, 60), (3, 120), (5, 480), (6, 900), (40, 900)]
)
def test_a_handler_that_throws_waits_twice_as_long_each_time(attempts, seconds):
    assert jobs.retry_delay(attempts) == seconds


def test_a_handler_that_always_throws_ends_as_dead(house, monkeypatch):
    def broken(payload: Any) -> None:
        raise ConnectionError("no route")

    monkeypatch.setitem(jobs.handlers, "mail.v1", broken)
    services.post_job(GOOD)
    work()
    job = Job.objects.get()
    assert (job.state, job.last_error) == ("pending", "ConnectionError: no route")
    waits = (job.ready_at - job.enqueued_at).total_seconds()
    assert 29 < waits < 60
    assert work() == 0

    for _ in range(jobs.MOST_ATTEMPTS):
        again()
        work()

    job.refresh_from_db()
    assert (job.state, job.attempts) == ("dead", jobs.MOST_ATTEMPTS)
    assert job.last_error == "ConnectionError: no route"


def test_a_job_whose_worker_died_goes_to_the_next(house):
    services.post_job(GOOD)
    lost = jobs.claim(drive.holder("worker-jobs"))
    assert lost is not None
    hands.die("worker-jobs")

    assert jobs.reclaim_orphans() == 1
    assert jobs.reclaim_orphans() == 0

    assert not jobs.settle(lost, "succeeded")
    assert jobs.work_off(holder=drive.holder("another")) == 1
    assert Job.objects.get().attempts == 2


def test_of_jobs_with_one_name_one_may_be_open(house):
    assert services.post_job(GOOD, once="digest") is not None
    assert services.post_job(GOOD, once="digest") is None
    assert services.post_job(GOOD) is not None
    work()

    assert services.post_job(GOOD, once="digest") is not None


@pytest.mark.django_db(transaction=True)
def test_of_many_workers_one_does_the_job(house):
    services.post_job(GOOD)
    holders = [drive.holder(f"w{number}") for number in range(6)]

    worked = hands.together(6, lambda n: jobs.work_off(holder=holders[n]))

    assert sum(worked) == 1
    assert len(mail.outbox) == 1


def test_a_broker_that_does_not_answer_loses_no_work(
    house, monkeypatch, django_capture_on_commit_callbacks
):
    monkeypatch.undo()
    messenger = post.Messenger()
    monkeypatch.setattr(post, "messenger", messenger)
    sent: list[str] = []

    def away(name: str, **kwargs: Any) -> None:
        sent.append(name)
        raise ConnectionError("nobody there")

    monkeypatch.setattr("celery.current_app.send_task", away)
    with django_capture_on_commit_callbacks(execute=True):
        services.post_job(GOOD)
        services.post_job(GOOD)

    assert Job.objects.filter(state="pending").count() == 2
    assert sent == ["threads.job"], "the second caller does not wait again"


def flow_of(house: Any, *steps: Any, notify: list[str]) -> Run:
    flow = factories.workflow(house, *steps, notify=notify)
    return hands.go_on(spawn_run(flow).run)


def test_those_a_workflow_names_get_mail_when_it_waits_for_people(house, alice, bob):
    run = flow_of(house, factories.gate("ship", "Ship *it*?"), notify=["alice"])

    assert work() == 1

    (sent,) = mail.outbox
    assert sent.to == ["alice@example.com"]
    assert sent.subject == "nightly waits for an answer"
    assert "Ship *it*?" in sent.body
    assert f"/runs/{run.pk}/" in sent.body


def test_those_a_workflow_names_get_mail_when_it_failed(house, alice, bob, carol):
    run = flow_of(house, factories.command("test"), notify=["owner", "bob"])
    hands.answer(run, status=2)

    assert work() == 2

    assert sorted(sent.to[0] for sent in mail.outbox) == [
        "alice@example.com", "bob@example.com",
    ]  # fmt: skip
    assert {sent.subject for sent in mail.outbox} == {"nightly failed at test"}
    assert "exited with status 2" in mail.outbox[0].body


def test_a_run_whose_workers_kept_dying_sends_mail_too(house, alice):
    flow = factories.workflow(
        house, factories.gate("ship"), notify=["alice"], max_attempts=1
    )
    run = spawn_run(flow).run
    hands.hold(run)
    hands.die()
    look(run.pk)

    assert work() == 1
    assert mail.outbox[0].subject == "nightly failed at ship"


@pytest.mark.parametrize("notify", [[], ["carol"]])
def test_nobody_else_gets_mail(house, alice, carol, notify):
    carol.email = ""
    carol.save()
    run = flow_of(house, factories.gate("ship"), notify=notify)
    gates.speak(drive.thread_of(run), person=alice, text="no")
    hands.go_on(run)

    assert run.state == "failed"
    assert not Job.objects.exists()


def test_a_run_that_completes_sends_none(house, alice):
    run = flow_of(house, factories.command("test"), notify=["alice"])

    assert hands.answer(run).state == "completed"
    assert not Job.objects.exists()
